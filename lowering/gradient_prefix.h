#pragma once
// Where gradients are needed libtorch's operators are replayed; what lies before the first of them need not be.

#include "lowering/graph_parts.h"

namespace dynrun::lowering {

/// Cuts a graph in two before its first node that takes or gives a tensor that requires grad. Nothing where less than three nodes
/// lie before it, or where one of them writes in place or hands on a view.
std::vector<GraphPart> split_before_gradients(const graph::Graph& graph);

}  // namespace dynrun::lowering
