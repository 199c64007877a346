// Matrix products with a weight known at compile time: aten::linear, and aten::addmm, mm and matmul with such a right side.

#include "lowering/extern/candidates.h"
#include "lowering/extern/claim.h"
#include "lowering/extern/convolution_call.h"
#include "lowering/extern/packed_weights.h"
#include "lowering/extern/small_linear.h"

#include <ATen/Functions.h>
#include <c10/util/strides.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dynrun::lowering {
namespace {

struct LinearCall : ProductArguments {
  bool is_convolution = false;        // [rows, columns, 1, 1]
  bool is_known = false;              // weight and bias, at compile time: they can be packed
  std::int64_t rows = 0, columns_in = 0, columns_out = 0;
};

/// A convolution of one pixel by one pixel, as in squeeze and excitation, is a linear layer.
std::optional<LinearCall> match_one_pixel(const Program& program, const Node& node) {
  auto convolution = match_convolution(program, node);
  if (!convolution || convolution->geometry.groups != 1 || convolution->geometry.padding != std::vector<std::int64_t>{0, 0})
    return std::nullopt;
  const auto& input = program.graph.type_of(convolution->input).sizes;
  const auto& weight = program.graph.type_of(convolution->weight).sizes;
  if (input[2] != 1 || input[3] != 1 || weight[2] != 1 || weight[3] != 1) return std::nullopt;
  LinearCall call;
  call.input = convolution->input, call.weight = convolution->weight, call.bias = convolution->bias,
  call.output = convolution->output;
  call.is_known = true, call.is_convolution = true;
  call.rows = input[0], call.columns_in = weight[1], call.columns_out = weight[0];
  return call;
}

std::optional<LinearCall> match_linear(const Program& program, const Node& node) {
  if (auto call = match_one_pixel(program, node)) return call;
  const auto arguments = product_arguments(program, node);
  if (!arguments) return std::nullopt;
  LinearCall call{*arguments};
  if (!is_plain_float(program, call.input) || !is_plain_float(program, call.weight) || !is_plain_float(program, call.output))
    return std::nullopt;
  const TensorType& input = program.graph.type_of(call.input);
  const TensorType& weight = program.graph.type_of(call.weight);
  if (input.sizes.size() < 2 || weight.sizes.size() != 2 || input.element_count() == 0 || weight.element_count() == 0)
    return std::nullopt;
  if (program.known(call.input)) return std::nullopt;
  call.columns_in = input.sizes.back();
  call.columns_out = weight.sizes[call.weight_is_transposed ? 1 : 0];
  call.rows = input.element_count() / call.columns_in;
  call.is_known = program.known(call.weight).has_value();
  if (call.bias != graph::kNoValue) {
    const TensorType& bias = program.graph.type_of(call.bias);
    if (!is_plain_float(program, call.bias) || bias.sizes != std::vector<std::int64_t>{call.columns_out}) return std::nullopt;
    call.is_known = call.is_known && program.known(call.bias);
  }
  return call;
}

/// What a product that adds to its result starts from: bias, addend or their sum; nothing when there is neither.
void start_result(const at::Tensor& result, const std::optional<at::Tensor>& bias, const at::Tensor& addend) {
  at::Tensor out = result;
  if (bias && addend.defined())
    at::add_out(out, addend, *bias);
  else if (bias)
    out.copy_(bias->expand_as(out));
  else if (addend.defined())
    out.copy_(addend);
}

enum class LinearWay { kMatmul, kPacked, kSmall, kLibtorch };

/// So few products that one thread is enough and the packed copy is nothing.
bool is_small(const LinearCall& call) {
  constexpr std::int64_t kMostProducts = 1 << 18, kMostWeights = 1 << 18;
  return call.is_known && call.rows * call.columns_in * call.columns_out <= kMostProducts &&
         call.columns_in * call.columns_out <= kMostWeights;
}

bool is_relu(const Tail& tail) {
  return tail.epilogue && tail.epilogue->unary.name == "relu";
}

/// What computes a linear layer best: oneDNN's matmul on the weight as it is, into a buffer that starts as bias and addend; its
/// inner product on a packed weight, a second copy in memory; dynrun's own code for small ones; or libtorch's own operator.
LinearWay choose_way(const LinearCall& call, const Tail& tail, const at::Tensor& weight) {
  // Where libtorch lets oneDNN have packed weights only, its BLAS is the other way, which gains less from a second thread than from
  // the first, with which it is measured.
  const double memory_handicap = onednn::has_matmul() ? 1.12 : 1;
  constexpr std::int64_t kMostPackedBytes = std::int64_t{64} << 20;
  const bool has_bias = call.bias != graph::kNoValue, has_addend = tail.addend != graph::kNoValue;
  const Question question{fmt::format("{} {}x{}{} bias {} sum {} {}",
                                      call.is_convolution ? "one-pixel convolution"
                                      : call.is_known     ? "linear"
                                                          : "linear by an activation",
                                      call.columns_in, call.columns_out, call.weight_is_transposed ? " transposed" : "", has_bias, has_addend,
                                      tail.epilogue ? tail.epilogue->unary.name : ""),
                          {call.rows}};
  at::Tensor x, other, result, small;
  std::optional<at::Tensor> b, packed;
  auto prepare = [&] {
    if (x.defined()) return;
    x = at::ones({call.rows, call.columns_in});
    result = at::empty({call.rows, call.columns_out});
    other = at::ones({call.rows, call.columns_out});
    if (has_bias) b = at::ones({call.columns_out});
  };
  // What is left to another kernel counts too.
  auto finish = [&](const at::Tensor& value, bool sum_is_done) {
    if (has_addend && !sum_is_done) at::add_out(result, value, other);
    if (tail.epilogue) tail.epilogue->exact(value);
  };
  Candidate matmul_way{"matmul", [&] {
                         prepare();
                         start_result(result, b, has_addend ? other : at::Tensor());
                         onednn::matmul(x, weight.t(), result, has_bias || has_addend ? 1 : 0, 1);
                         finish(result, true);
                       },
                       1, onednn::has_matmul()};  // else it is libtorch's own product, which is a candidate itself
  Candidate packed_way{"packed",
                       [&] {
                         prepare();
                         if (!packed) packed = onednn::pack_linear_weight(weight, call.rows);
                         if (has_addend)
                           onednn::linear_add(x, other, *packed, b);
                         else
                           onednn::linear(x, *packed, b, tail.epilogue ? tail.epilogue->unary : onednn::Unary());
                       },
                       memory_handicap, call.is_known && weight.numel() * weight.element_size() <= kMostPackedBytes};
  Candidate libtorch_way{"libtorch", [&] {
                           prepare();
                           if (call.is_convolution)
                             finish(at::conv2d(x.unsqueeze(2).unsqueeze(3), weight.unsqueeze(2).unsqueeze(3), b).flatten(1),
                                    false);
                           else
                             finish(at::linear(x, weight, b), false);
                         }};
  Candidate small_way{
      "small", [&] {
        prepare();
        if (!small.defined()) small = pack_small_weight(weight);
        const bool has_relu = is_relu(tail);
        run_small_linear({x.const_data_ptr<float>(), small.const_data_ptr<float>(), b ? b->const_data_ptr<float>() : nullptr,
                          has_addend ? other.const_data_ptr<float>() : nullptr, result.mutable_data_ptr<float>(), call.rows,
                          call.columns_in, call.columns_out, has_relu});
        if (tail.epilogue && !has_relu) tail.epilogue->exact(result);
      },
      1, is_small(call)};
  if (call.is_convolution) return fastest(question, {small_way, libtorch_way}) == 0 ? LinearWay::kSmall : LinearWay::kLibtorch;
  constexpr LinearWay kWays[] = {LinearWay::kMatmul, LinearWay::kPacked, LinearWay::kSmall, LinearWay::kLibtorch};
  return kWays[fastest(question, {matmul_way, packed_way, small_way, libtorch_way})];
}

struct LinearPlan {
  at::Tensor packed;
  std::optional<at::Tensor> bias;
  std::optional<Epilogue> epilogue;
  bool has_addend = false;
  TensorType output_type;
  std::string text;
};

class PackedLinearStep : public runtime::Step {
 public:
  PackedLinearStep(LinearPlan plan, FiniteGuard guard, std::vector<runtime::SlotId> inputs, runtime::SlotId output)
      : plan_(std::move(plan)), guard_(std::move(guard)), inputs_(std::move(inputs)), output_(output) {}

  void run(runtime::Slots& slots) const override {
    static const onednn::Unary kNone;
    at::Tensor result;
    if (plan_.has_addend) {
      result = onednn::linear_add(slots[inputs_[0]], slots[inputs_[1]], plan_.packed, plan_.bias);
    } else {
      const bool exact = plan_.epilogue && plan_.epilogue->needs_finite && !guard_.holds(slots);
      result =
          onednn::linear(slots[inputs_[0]], plan_.packed, plan_.bias, plan_.epilogue && !exact ? plan_.epilogue->unary : kNone);
      if (exact) result = plan_.epilogue->exact(result);
    }
    slots[output_] = conform(std::move(result), plan_.output_type);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override {
    return plan_.text + fmt::format("{} ({}) -> {}", guard_.describe(), inputs_[0], output_);
  }

 private:
  LinearPlan plan_;
  FiniteGuard guard_;
  std::vector<runtime::SlotId> inputs_;
  runtime::SlotId output_;
};

/// bias + addend + input @ weight into the planned buffer. The weight stays an input of the step.
class PlainLinearStep : public runtime::Step {
 public:
  /// The slots of input, weight, then addend and bias where there are some.
  PlainLinearStep(bool transpose, bool has_addend, bool has_bias, std::vector<runtime::SlotId> inputs, runtime::SlotId output)
      : transpose_(transpose), has_addend_(has_addend), has_bias_(has_bias), inputs_(std::move(inputs)), output_(output) {}

  void run(runtime::Slots& slots) const override {
    const at::Tensor& input = slots[inputs_[0]];
    const at::Tensor& weight = slots[inputs_[1]];
    const at::Tensor& output = slots[output_];
    std::optional<at::Tensor> bias;
    if (has_bias_) bias = slots[inputs_.back()];
    start_result(output, bias, has_addend_ ? slots[inputs_[2]] : at::Tensor());
    onednn::matmul(input.reshape({-1, input.size(-1)}), transpose_ ? weight.t() : weight, output.view({-1, output.size(-1)}),
                   has_bias_ || has_addend_ ? 1 : 0, 1);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override {
    return fmt::format("oneDNN matmul{} ({}) -> {}", has_addend_ ? " + sum" : "", fmt::join(inputs_, ", "), output_);
  }

 private:
  bool transpose_, has_addend_, has_bias_;
  std::vector<runtime::SlotId> inputs_;
  runtime::SlotId output_;
};

std::optional<Claim> plain_claim(ClaimContext& context, std::int32_t index, const LinearCall& call, const Tail& tail) {
  const bool has_addend = tail.addend != graph::kNoValue, has_bias = call.bias != graph::kNoValue;
  Claim claim;
  claim.kernel.nodes = {index};
  claim.kernel.inputs = {call.input, call.weight};
  claim.kernel.outputs = {call.output};
  if (has_addend) {
    claim.kernel.nodes.push_back(tail.nodes[0]);
    claim.kernel.inputs.push_back(tail.addend);
    claim.kernel.outputs = {tail.result};
  }
  if (has_bias) claim.kernel.inputs.push_back(call.bias);
  if (!context.type(claim.kernel.outputs[0]).is_contiguous()) return std::nullopt;
  claim.make = [transpose = !call.weight_is_transposed, has_addend, has_bias](FiniteGuard, std::vector<runtime::SlotId> inputs,
                                                                              std::vector<runtime::SlotId> outputs) {
    return std::make_unique<PlainLinearStep>(transpose, has_addend, has_bias, std::move(inputs), outputs[0]);
  };
  return claim;
}

/// dynrun's own code on a packed weight, with bias, addend and relu in the same pass.
class SmallLinearStep : public runtime::Step {
 public:
  SmallLinearStep(at::Tensor packed, at::Tensor bias, SmallLinear shape, std::vector<runtime::SlotId> inputs,
                  runtime::SlotId output)
      : packed_(std::move(packed)), bias_(std::move(bias)), shape_(shape), inputs_(std::move(inputs)), output_(output) {}

  void run(runtime::Slots& slots) const override {
    const at::Tensor& input = slots[inputs_[0]];
    // A view of one row may have any stride in the others.
    const at::Tensor copy = input.is_contiguous() ? at::Tensor() : input.contiguous();
    SmallLinear call = shape_;
    call.input = (copy.defined() ? copy : input).const_data_ptr<float>();
    call.packed = packed_.const_data_ptr<float>();
    call.bias = bias_.defined() ? bias_.const_data_ptr<float>() : nullptr;
    call.addend = inputs_.size() > 1 ? slots[inputs_[1]].const_data_ptr<float>() : nullptr;
    call.output = slots[output_].mutable_data_ptr<float>();
    run_small_linear(call);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override {
    return fmt::format("small linear{}{} ({}) -> {}", inputs_.size() > 1 ? " + sum" : "", shape_.relu ? " + relu" : "",
                       fmt::join(inputs_, ", "), output_);
  }

 private:
  at::Tensor packed_, bias_;
  SmallLinear shape_;
  std::vector<runtime::SlotId> inputs_;
  runtime::SlotId output_;
};

std::optional<Claim> small_claim(ClaimContext& context, std::int32_t index, const LinearCall& call, const Tail& tail) {
  SmallLinear shape{nullptr, nullptr, nullptr, nullptr, nullptr, call.rows, call.columns_in, call.columns_out, is_relu(tail)};
  Claim claim;
  claim.kernel.nodes = {index};
  claim.kernel.inputs = {call.input};
  claim.kernel.outputs = {call.output};
  if (tail.addend != graph::kNoValue) claim.kernel.inputs.push_back(tail.addend);
  if (tail.addend != graph::kNoValue || shape.relu) {
    claim.kernel.nodes.push_back(tail.nodes[0]);
    claim.kernel.outputs = {tail.result};
  }
  const TensorType& result = context.type(claim.kernel.outputs[0]);
  if (!same_layout(result.sizes, result.strides, c10::contiguous_strides(result.sizes))) return std::nullopt;
  at::Tensor weight = context.read_known(call.weight);
  if (call.is_convolution) weight = weight.flatten(1);
  const at::Tensor packed = context.packed(call.output, "small", [&] { return pack_small_weight(call.weight_is_transposed ? weight.t() : weight); });
  at::Tensor bias;
  if (call.bias != graph::kNoValue) bias = context.read_known(call.bias).clone(at::MemoryFormat::Contiguous);
  claim.make = [packed, bias, shape](FiniteGuard, std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) {
    return std::make_unique<SmallLinearStep>(packed, bias, shape, std::move(inputs), outputs[0]);
  };
  return claim;
}

Claim packed_claim(ClaimContext& context, std::int32_t index, const LinearCall& call, const Tail& tail) {
  at::Tensor weight = context.read_known(call.weight);
  if (call.weight_is_transposed) weight = weight.t();
  LinearPlan plan;
  plan.packed = packed_linear(context, call.output, weight, call.rows);
  if (call.bias != graph::kNoValue) plan.bias = context.read_known(call.bias).clone();
  plan.epilogue = tail.epilogue;
  plan.has_addend = tail.addend != graph::kNoValue;
  plan.output_type = context.type(tail.result);
  plan.text =
      fmt::format("oneDNN linear{}{}", plan.has_addend ? " + sum" : "", tail.epilogue ? " + " + tail.epilogue->unary.name : "");
  Claim claim;
  claim.kernel.nodes = {index};
  claim.kernel.nodes.insert(claim.kernel.nodes.end(), tail.nodes.begin(), tail.nodes.end());
  claim.kernel.inputs = {call.input};
  if (plan.has_addend) claim.kernel.inputs.push_back(tail.addend);
  claim.kernel.outputs = {tail.result};
  claim.kernel.makes_outputs = true;
  if (tail.epilogue && tail.epilogue->needs_finite) claim.guarded_input = call.input;
  claim.make = [plan](FiniteGuard guard, std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) {
    return std::make_unique<PackedLinearStep>(plan, std::move(guard), std::move(inputs), outputs[0]);
  };
  return claim;
}

}  // namespace

std::optional<Claim> claim_linear(ClaimContext& context, std::int32_t index) {
  if (!onednn::available()) return std::nullopt;
  auto call = match_linear(context.program, context.node(index));
  if (!call) return std::nullopt;
  auto allow_addend = [&](ValueId addend, ValueId sum) {
    const TensorType& type = context.type(addend);
    return is_plain_float(context.program, addend) && type.sizes == context.type(sum).sizes &&
           same_layout(type.sizes, type.strides, c10::contiguous_strides(type.sizes)) && !context.program.known(addend);
  };
  const Tail tail = match_tail(context, index, TailForm::kAddOrUnary, allow_addend);
  // What an activation holds is not to be read: its layout is enough for measuring.
  const TensorType& weight_type = context.type(call->weight);
  const auto weight = context.program.known(call->weight);
  const at::Tensor known = weight ? *weight : at::empty_strided(weight_type.sizes, weight_type.strides).fill_(1);
  const LinearWay way = choose_way(*call, tail,
                                   call->weight_is_transposed ? known.t()
                                   : call->is_convolution     ? known.flatten(1)
                                                              : known);
  if (way == LinearWay::kLibtorch) return std::nullopt;
  if (way == LinearWay::kSmall) return small_claim(context, index, *call, tail);
  return way == LinearWay::kPacked ? packed_claim(context, index, *call, tail) : plain_claim(context, index, *call, tail);
}

}  // namespace dynrun::lowering
