#include "graph/aliases.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "graph/writes.h"

#include <algorithm>

namespace dynrun::graph {

namespace {

std::size_t at(ValueId id) { return static_cast<std::size_t>(id); }

}  // namespace

Aliases::Aliases(const Graph& graph) : roots_(graph.values.size()) {
  for (const Input& input : graph.inputs) roots_[at(input.value)] = {input.value};
  for (const Node& node : graph.nodes) add(node);
}

void Aliases::add(const Node& node) {
  std::set<ValueId> given;
  if (may_give_argument(node.op)) visit_values(node, [&](ValueId id) { given.insert(roots(id).begin(), roots(id).end()); });
  for (ValueId id : node.outputs) {
    if (id == kNoValue || !roots_[at(id)].empty()) continue;  // what is written in place was there before
    roots_[at(id)] = given;
    roots_[at(id)].insert(id);
  }
  const auto& formals = node.op.schema().arguments();
  for (std::size_t i = 0; i < node.arguments.size(); i++) {
    if (!graph::is_written(formals[i])) continue;
    auto note = [&](const Argument& argument) {
      if (argument.is_value() && argument.value() != kNoValue) written_.insert(roots(argument.value()).begin(), roots(argument.value()).end());
    };
    note(node.arguments[i]);
    if (node.arguments[i].is_list()) std::for_each(node.arguments[i].items().begin(), node.arguments[i].items().end(), note);
  }
}

bool Aliases::is_written(ValueId id) const {
  return std::any_of(roots(id).begin(), roots(id).end(), [&](ValueId root) { return written_.count(root) != 0; });
}

}  // namespace dynrun::graph
