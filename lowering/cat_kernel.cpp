#include "lowering/cat_kernel.h"

#include <ATen/ATen.h>

namespace dynrun::lowering {
namespace {

class CatStep final : public runtime::Step {
 public:
  CatStep(std::vector<runtime::SlotId> inputs, runtime::SlotId output, std::int64_t dimension)
      : inputs_(std::move(inputs)), output_(output), dimension_(dimension) {}

  void run(runtime::Slots& slots) const override {
    std::vector<at::Tensor> tensors;
    tensors.reserve(inputs_.size());
    for (runtime::SlotId id : inputs_) tensors.push_back(slots[id]);
    at::cat_out(slots[output_], tensors, dimension_);
  }
  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override { return "cat of " + std::to_string(inputs_.size()); }

 private:
  std::vector<runtime::SlotId> inputs_;
  runtime::SlotId output_;
  std::int64_t dimension_;
};

}  // namespace

std::vector<graph::ValueId> concatenated(const graph::Node& node) {
  const std::string& name = node.op.operator_name().name;
  if ((name != "aten::cat" && name != "aten::concat" && name != "aten::stack") || !node.arguments[0].is_list()) return {};
  std::vector<graph::ValueId> parts;
  for (const graph::Argument& item : node.arguments[0].items()) {
    if (!item.is_value() || item.value() == graph::kNoValue) return {};
    parts.push_back(item.value());
  }
  return parts;
}

std::optional<LibraryKernel> cat_kernel(const Program& program, std::int32_t index) {
  const graph::Node& node = program.graph.nodes[static_cast<std::size_t>(index)];
  std::vector<graph::ValueId> parts = concatenated(node);
  if (parts.empty() || node.op.operator_name().name == "aten::stack" || !node.arguments[1].is_constant() ||
      !node.arguments[1].constant().isInt()) {
    return std::nullopt;
  }
  const graph::TensorType& type = program.graph.type_of(node.outputs[0]);
  for (graph::ValueId part : parts) {
    if (program.graph.type_of(part).dtype != type.dtype) return std::nullopt;
  }
  LibraryKernel kernel;
  kernel.nodes = {index};
  kernel.inputs = parts;
  kernel.outputs = {node.outputs[0]};
  kernel.make = [dimension = node.arguments[1].constant().toInt()](std::vector<runtime::SlotId> inputs,
                                                                   std::vector<runtime::SlotId> outputs) {
    return std::make_unique<CatStep>(std::move(inputs), outputs[0], dimension);
  };
  return kernel;
}

}  // namespace dynrun::lowering
