#pragma once
// Walks over what a node takes.

#include "graph/graph.h"

namespace dynrun::graph {

/// Calls `visit` with each value in an argument, lists included; undefined tensors are passed over.
template <typename Visit>
void visit_values(const Argument& argument, const Visit& visit) {
  if (argument.is_value() && argument.value() != kNoValue) visit(argument.value());
  if (!argument.is_list()) return;
  for (const Argument& item : argument.items()) visit_values(item, visit);
}

/// The same for all arguments of a node, in order.
template <typename Visit>
void visit_values(const Node& node, const Visit& visit) {
  for (const Argument& argument : node.arguments) visit_values(argument, visit);
}

}  // namespace dynrun::graph
