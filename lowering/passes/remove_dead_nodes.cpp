#include "lowering/passes/passes.h"

#include "graph/operators.h"

namespace dynrun::lowering {
namespace {

void mark(const Program& program, const graph::Argument& argument, std::vector<bool>& live) {
  if (argument.is_value() && argument.value() != graph::kNoValue) {
    live[static_cast<std::size_t>(argument.value())] = true;
    live[static_cast<std::size_t>(program.root(argument.value()))] = true;
  } else if (argument.is_list()) {
    for (const graph::Argument& item : argument.items()) mark(program, item, live);
  }
}

}  // namespace

void remove_dead_nodes(Program& program) {
  std::vector<bool> live(program.graph.values.size(), false);
  for (graph::ValueId id : program.graph.outputs) {
    if (id != graph::kNoValue) mark(program, graph::Argument::reference(id), live);
  }
  std::vector<bool> effects;
  // An exception that a node may end in is one, whoever reads its result.
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i)
    effects.push_back(program.has_effect(static_cast<std::int32_t>(i)) || may_raise_on_data(program.graph, program.graph.nodes[i]));
  std::vector<graph::Node> kept;
  for (std::size_t i = program.graph.nodes.size(); i-- > 0;) {
    graph::Node& node = program.graph.nodes[i];
    bool needed = effects[i];
    for (graph::ValueId id : node.outputs) needed = needed || (id != graph::kNoValue && live[static_cast<std::size_t>(id)]);
    if (!needed) continue;
    for (const graph::Argument& argument : node.arguments) mark(program, argument, live);
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  program.graph.nodes = std::move(kept);
  // A view that nobody reads would keep its root from being fused away.
  for (auto view = program.views.begin(); view != program.views.end();) {
    view = live[static_cast<std::size_t>(view->first)] ? std::next(view) : program.views.erase(view);
  }
}

}  // namespace dynrun::lowering
