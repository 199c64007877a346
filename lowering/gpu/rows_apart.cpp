#include "lowering/gpu/rows_apart.h"

#include "lowering/extern/arguments.h"

#include <ATen/ops/mm.h>

#include <numeric>

namespace dynrun::lowering::gpu {
namespace {

constexpr std::int64_t kAligned = 8;  // elements of a half type in the 16 bytes that libraries' kernels move at once
constexpr std::int64_t kFewFeatures = 1024, kFewRows = 1024;  // below, the single products are too small for a GPU

/// Rows of a matrix, each so many elements behind the one before.
at::Tensor rows_of(const at::Tensor& tensor, std::int64_t first, std::int64_t step, std::int64_t column, std::int64_t columns) {
  const std::int64_t rows = tensor.size(0), width = tensor.size(1);
  return tensor.as_strided({(rows - first + step - 1) / step, columns}, {step * width, 1}, tensor.storage_offset() + first * width + column);
}

class RowsApartStep final : public runtime::Step {
 public:
  RowsApartStep(std::vector<runtime::SlotId> inputs, runtime::SlotId output) : inputs_(std::move(inputs)), output_(output) {}

  void run(runtime::Slots& slots) const override {
    const at::Tensor &input = slots[inputs_[0]], &weight = slots[inputs_[1]];
    multiply_rows_apart(slots[output_].view({-1, weight.size(0)}), input.view({-1, weight.size(1)}), weight);
  }
  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override { return "product of oddly many features, rows apart -> " + std::to_string(output_); }

 private:
  std::vector<runtime::SlotId> inputs_;
  runtime::SlotId output_;
};

struct OddLinear {
  ValueId input, weight, output;
};

std::optional<OddLinear> match_odd_linear(const Program& program, std::int32_t index) {
  const Node& node = program.graph.nodes[static_cast<std::size_t>(index)];
  if (node.op_name() != "aten::linear" || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue || node.mode.autocast) return std::nullopt;
  if (program.has_effect(index) || program.touches_unsized(index)) return std::nullopt;
  const auto input = tensor_argument(program, node.arguments[0]), weight = tensor_argument(program, node.arguments[1]);
  const auto bias = optional_tensor(program, node.arguments[2]);
  if (!input || !weight || !bias || *bias != graph::kNoValue) return std::nullopt;
  const TensorType &from = program.graph.type_of(*input), &factors = program.graph.type_of(*weight), &result = program.graph.type_of(node.outputs[0]);
  for (const TensorType* type : {&from, &factors, &result}) {
    if (!type->is_contiguous() || type->dtype != result.dtype || type->device != result.device) return std::nullopt;
  }
  if (c10::elementSize(result.dtype) * kAligned != 16 || !c10::isFloatingType(result.dtype) || factors.sizes.size() != 2) return std::nullopt;
  const std::int64_t features = factors.sizes[0], depth = factors.sizes[1];
  const bool worth = features >= kFewFeatures && result.element_count() >= kFewRows * features;
  return worth && features % kAligned != 0 && depth % kAligned == 0 ? std::optional(OddLinear{*input, *weight, node.outputs[0]}) : std::nullopt;
}

}  // namespace

void multiply_rows_apart(at::Tensor result, const at::Tensor& input, const at::Tensor& weight) {
  const std::int64_t features = result.size(1), depth = input.size(1);
  const std::int64_t apart = kAligned / std::gcd(kAligned, features);
  auto begin_of = [&](std::int64_t row) { return (kAligned - row * features % kAligned) % kAligned; };
  const std::int64_t latest = kAligned - std::gcd(kAligned, features);  // where a row begins at most
  const std::int64_t columns = (features - latest) / kAligned * kAligned;
  for (std::int64_t row = 0; row < std::min(apart, result.size(0)); row++) {
    at::Tensor part = rows_of(result, row, apart, begin_of(row), columns);
    at::mm_out(part, rows_of(input, row, apart, 0, depth), weight.narrow(0, begin_of(row), columns).t());
  }
  auto multiply = [&](std::int64_t first, std::int64_t last) {
    at::Tensor part = result.narrow(1, first, last - first);
    at::mm_out(part, input, weight.narrow(0, first, last - first).t());
  };
  multiply(0, latest);
  multiply(columns, features);
}

bool claim_rows_apart(const Program& program, std::vector<LibraryKernel>& claims) {
  bool any = false;
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const auto linear = match_odd_linear(program, index);
    if (!linear) continue;
    any = true;
    LibraryKernel kernel;
    kernel.nodes = {index};
    kernel.inputs = {linear->input, linear->weight};
    kernel.outputs = {linear->output};
    kernel.make = [](std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) { return std::make_unique<RowsApartStep>(std::move(inputs), outputs[0]); };
    claims.push_back(std::move(kernel));
  }
  return any;
}

}  // namespace dynrun::lowering::gpu
