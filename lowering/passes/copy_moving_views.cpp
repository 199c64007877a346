// copy_moving_views: tensor[i], tensor[i:i + 4] with an index that each replay computes -> a copy of that part.
//
// A view whose place moves has no fixed index map. Of inputs it is taken before all else (moving_views.h); of what the graph
// computes, where nobody can tell the view from a copy (nothing of it is written, and no alias of the view is handed out), the operator's copying form takes its place.

#include "graph/aliases.h"
#include "lowering/moving_views.h"
#include "lowering/passes/passes.h"

namespace dynrun::lowering {
namespace {

using graph::Node;

/// Whether what each moving view shows is written by nobody, and not handed out.
bool stay_inside(const graph::Graph& graph) {
  const graph::Aliases aliases(graph);
  for (const Node& node : graph.nodes) {
    if (!is_moving_view(node)) continue;
    const graph::ValueId view = node.outputs[0];
    if (!graph.type_of(view).is_contiguous() || aliases.is_written(view)) return false;
    for (graph::ValueId output : graph.outputs) {
      if (output != graph::kNoValue && aliases.roots(output).count(view) != 0) return false;
    }
  }
  return true;
}

}  // namespace

std::shared_ptr<const graph::Graph> copy_moving_views(std::shared_ptr<const graph::Graph> graph) {
  bool any = false;
  for (const Node& node : graph->nodes) any = any || is_moving_view(node);
  if (!any) return graph;
  if (!stay_inside(*graph)) return nullptr;
  auto copied = std::make_shared<graph::Graph>(*graph);
  for (Node& node : copied->nodes) {
    const c10::OperatorName name = node.op.operator_name();
    if (is_moving_view(node)) node.op = c10::Dispatcher::singleton().findSchemaOrThrow((name.name + "_copy").c_str(), name.overload_name.c_str());
  }
  return copied;
}

}  // namespace dynrun::lowering
