#pragma once
// tensor[i:i + 4], where each replay computes `i`: a view without a fixed index map. Of an input it can be taken before all else.

#include "lowering/graph_parts.h"

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

namespace dynrun::lowering {

/// Whether a node is a slice, narrow or select at a number that comes into the graph.
bool is_moving_view(const graph::Node& node);

/// Cuts a graph in two: the first part takes moving views of inputs, and the other has none of these. Nothing where there are none, where
/// the other would write memory that it has under two names, or where an operator changes a tensor's sizes in place. `examples`: the inputs.
std::vector<GraphPart> split_behind_moving_views(const graph::Graph& graph, c10::ArrayRef<at::Tensor> examples);

}  // namespace dynrun::lowering
