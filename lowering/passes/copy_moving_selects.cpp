// copy_moving_selects: tensor[i] with an index that each replay computes -> a copy of that part.
//
// A view whose place moves has no fixed index map. Where nobody can tell the view from a copy (nothing is written in the
// graph, and no alias of the view is handed out) the operator's copying form takes its place.

#include "lowering/passes/passes.h"

#include <unordered_set>

namespace dynrun::lowering {
namespace {

using graph::Argument;
using graph::Node;

bool moves(const Node& node) {
  return node.op_name() == "aten::select.int" && node.arguments[2].is_value();
}

bool reads_any(const Argument& argument, const std::unordered_set<graph::ValueId>& values) {
  if (argument.is_value()) return values.count(argument.value()) != 0;
  if (!argument.is_list()) return false;
  for (const Argument& item : argument.items()) {
    if (reads_any(item, values)) return true;
  }
  return false;
}

bool may_alias(const Node& node) {
  for (const c10::Argument& formal : node.op.schema().arguments()) {
    if (formal.alias_info() != nullptr) return true;
  }
  return false;
}

/// Whether every moving view, and what aliases it, stays inside the graph, which writes nothing.
bool stays_inside(const graph::Graph& graph) {
  std::unordered_set<graph::ValueId> aliases;
  for (const Node& node : graph.nodes) {
    if (node.op.schema().is_mutable()) return false;
    bool aliasing = moves(node);
    if (aliasing && !graph.type_of(node.outputs[0]).is_contiguous()) return false;
    for (const Argument& argument : node.arguments) aliasing = aliasing || (may_alias(node) && reads_any(argument, aliases));
    if (aliasing) aliases.insert(node.outputs.begin(), node.outputs.end());
  }
  for (graph::ValueId output : graph.outputs) {
    if (aliases.count(output)) return false;
  }
  return true;
}

}  // namespace

std::shared_ptr<const graph::Graph> copy_moving_selects(std::shared_ptr<const graph::Graph> graph) {
  bool any = false;
  for (const Node& node : graph->nodes) any = any || moves(node);
  if (!any) return graph;
  if (!stays_inside(*graph)) return nullptr;
  auto copied = std::make_shared<graph::Graph>(*graph);
  const auto copy = c10::Dispatcher::singleton().findSchemaOrThrow("aten::select_copy", "int");
  for (Node& node : copied->nodes) {
    if (moves(node)) node.op = copy;
  }
  return copied;
}

}  // namespace dynrun::lowering
