// Convolutions by oneDNN: weights packed once, channels-last activations, bias, residual sum and activation in the same pass.

#include "lowering/extern/claim.h"
#include "lowering/extern/convolution_call.h"
#include "lowering/extern/convolution_parts.h"
#include "lowering/extern/packed_weights.h"

#include <ATen/Functions.h>
#include <fmt/format.h>

namespace dynrun::lowering {
namespace {

struct ConvolutionPlan {
  onednn::ConvolutionGeometry geometry;
  std::vector<at::Tensor> packed;  // the weight's parts
  std::optional<at::Tensor> bias;
  std::optional<Epilogue> epilogue;
  bool accumulate = false;
  TensorType output_type;
  std::string text;
};

class ConvolutionStep : public runtime::Step {
 public:
  ConvolutionStep(ConvolutionPlan plan, FiniteGuard guard, runtime::SlotId input, runtime::SlotId output)
      : plan_(std::move(plan)), guard_(std::move(guard)), input_(input), output_(output) {}

  void run(runtime::Slots& slots) const override {
    const bool exact = plan_.epilogue && plan_.epilogue->needs_finite && !guard_.holds(slots);
    static const onednn::Unary kNone;
    const onednn::Unary& unary = plan_.epilogue && !exact ? plan_.epilogue->unary : kNone;
    at::Tensor& output = slots[output_];
    if (plan_.accumulate) {
      convolve_add(output, slots[input_], plan_.packed, plan_.bias, plan_.geometry, unary);
      if (exact) output.copy_(plan_.epilogue->exact(output));
      return;
    }
    at::Tensor result = convolve(slots[input_], plan_.packed, plan_.bias, plan_.geometry, unary);
    if (exact) result = plan_.epilogue->exact(result);
    output = conform(std::move(result), plan_.output_type);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override {
    return plan_.text + fmt::format("{} ({}) -> {}", guard_.describe(), input_, output_);
  }

 private:
  ConvolutionPlan plan_;
  FiniteGuard guard_;
  runtime::SlotId input_, output_;
};

}  // namespace

std::optional<Claim> claim_convolution(ClaimContext& context, std::int32_t index) {
  auto call = match_convolution(context.program, context.node(index));
  if (!call || !onednn::available()) return std::nullopt;
  // oneDNN adds into the addend's own buffer, which has to be laid out as the result is.
  auto allow_addend = [&](ValueId addend, ValueId sum) {
    const TensorType& type = context.type(addend);
    return type.dtype == c10::ScalarType::Float && type.sizes == context.type(sum).sizes &&
           type.strides == context.type(sum).strides && is_channels_last(type) && !context.program.known(addend) &&
           context.program.root(addend) != context.program.root(call->input);
  };
  const bool parts = convolution_parts(context.type(call->weight).sizes, call->geometry.groups) > 1;
  Tail tail = match_tail(context, index, TailForm::kAddThenRelu, allow_addend, parts);
  if (tail.addend != graph::kNoValue && context.type(tail.result).strides != context.type(tail.addend).strides) {
    tail = match_tail(context, index, TailForm::kUnaryOnly, allow_addend, parts);
  }
  if (!packed_is_faster(context.program, *call, context.type(tail.result))) return std::nullopt;

  ConvolutionPlan plan;
  plan.geometry = call->geometry;
  const at::Tensor weight = context.read_known(call->weight);
  plan.packed = packed_convolution(context, call->output, weight, call->geometry, context.type(call->input).sizes);
  if (call->bias != graph::kNoValue) plan.bias = context.read_known(call->bias).clone();
  context.give_up_constant(call->weight);
  plan.epilogue = tail.epilogue;
  plan.accumulate = tail.addend != graph::kNoValue;
  plan.output_type = context.type(tail.result);
  plan.text = fmt::format("oneDNN convolution{}{}{}", plan.packed.size() > 1 ? fmt::format(" in {} parts", plan.packed.size()) : "",
                          plan.accumulate ? " + sum" : "",
                          tail.epilogue ? " + " + tail.epilogue->unary.name : "");

  Claim claim;
  claim.kernel.nodes = {index};
  claim.kernel.nodes.insert(claim.kernel.nodes.end(), tail.nodes.begin(), tail.nodes.end());
  claim.kernel.inputs = {call->input};
  claim.kernel.outputs = {tail.result};
  claim.kernel.makes_outputs = !plan.accumulate;
  if (plan.accumulate) {
    claim.kernel.inputs.push_back(tail.addend);
    claim.kernel.accumulate_into = 1;
  }
  if (tail.epilogue && tail.epilogue->needs_finite) {
    claim.guarded_input = call->input;
    claim.guarded_accumulator = tail.addend;
  }
  claim.make = [plan](FiniteGuard guard, std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) {
    return std::make_unique<ConvolutionStep>(plan, std::move(guard), inputs[0], outputs[0]);
  };
  return claim;
}

}  // namespace dynrun::lowering
