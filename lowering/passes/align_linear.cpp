// align_linear: a linear of oddly many features -> one of as many as the library's fast kernels write, one of the few that are left,
// and both side by side.
//
// A row of the result begins where the one before it ends: where that is no multiple of 16 bytes, a GPU's library takes kernels that
// store single elements (a vocabulary of 50257 words: 129 us instead of 25). Whether the copy behind is worth it is measured.

#include "graph/text.h"
#include "lowering/extern/arguments.h"
#include "lowering/loops/expression.h"
#include "lowering/passes/passes.h"

namespace dynrun::lowering {
namespace {

constexpr std::int64_t kAccessBytes = 16;
constexpr std::int64_t kFewFeatures = 1024, kFewRows = 16;  // below, the products take no time worth saving

/// How many of the features the first product has; 0 where there is nothing to align.
std::int64_t aligned_features(const Program& program, const Node& node) {
  if (node.op_name() != "aten::linear" || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return 0;
  const auto input = tensor_argument(program, node.arguments[0]), weight = tensor_argument(program, node.arguments[1]);
  const auto bias = optional_tensor(program, node.arguments[2]);
  if (!input || !weight || !bias) return 0;
  const TensorType& result = program.graph.type_of(node.outputs[0]);
  const TensorType& factors = program.graph.type_of(*weight);
  if (result.unsized || !c10::isFloatingType(result.dtype) || factors.sizes.size() != 2 || !factors.is_contiguous() || !result.is_contiguous()) return 0;
  if (*bias != graph::kNoValue && program.graph.type_of(*bias).strides != Sizes{1}) return 0;
  const std::int64_t each = kAccessBytes / static_cast<std::int64_t>(c10::elementSize(result.dtype)), features = factors.sizes[0];
  const bool worth = features >= kFewFeatures && result.element_count() >= kFewRows * features;
  return worth && features % each != 0 && factors.sizes[1] % each == 0 ? features / each * each : 0;
}

/// Elements [first, last) of a value along its first dimension.
ValueId part_of(Program& program, ValueId whole, std::int64_t first, std::int64_t last) {
  TensorType type = program.graph.type_of(whole);
  View view{program.root(whole), first * type.strides[0], {}};
  if (auto found = program.views.find(whole); found != program.views.end()) view.offset += found->second.offset;
  type.sizes[0] = last - first;
  const ValueId id = program.add_value(std::move(type), "part");
  program.views.emplace(id, view);
  return id;
}

/// The product with features [first, last).
Node product(Program& program, const Node& node, std::int64_t first, std::int64_t last) {
  Node part = node;
  part.arguments[1] = Argument::reference(part_of(program, *tensor_argument(program, node.arguments[1]), first, last));
  const ValueId bias = *optional_tensor(program, node.arguments[2]);
  if (bias != graph::kNoValue) part.arguments[2] = Argument::reference(part_of(program, bias, first, last));
  TensorType type = program.graph.type_of(node.outputs[0]);
  type.sizes.back() = last - first;
  type.strides = graph::contiguous_strides(type.sizes);
  part.outputs = {program.add_value(std::move(type), "features")};
  return part;
}

}  // namespace

bool align_linear(Program& program) {
  std::vector<Node> nodes;
  bool any = false;
  for (std::size_t index = 0; index < program.graph.nodes.size(); ++index) {
    const Node node = program.graph.nodes[index];
    const std::int64_t features = program.has_effect(static_cast<std::int32_t>(index)) ? 0 : aligned_features(program, node);
    if (features == 0) {
      nodes.push_back(node);
      continue;
    }
    any = true;
    nodes.push_back(product(program, node, 0, features));
    nodes.push_back(product(program, node, features, program.graph.type_of(node.outputs[0]).sizes.back()));
    std::vector<Argument> parts = {Argument::reference(nodes[nodes.size() - 2].outputs[0]), Argument::reference(nodes.back().outputs[0])};
    nodes.push_back({c10::Dispatcher::singleton().findSchemaOrThrow("aten::cat", ""),
                     {Argument::list(std::move(parts)), Argument::constant(std::int64_t{-1})},
                     node.outputs,
                     {-1},
                     node.mode,
                     node.source});
  }
  program.graph.nodes = std::move(nodes);
  return any;
}

}  // namespace dynrun::lowering
