#pragma once
// Graphs for GPUs that are compiled part by part: those whose tensors lie on several GPUs, as a model's that is spread over them do, and
// those that look at a value on the way. Each part may become a CUDA graph.

#include "lowering/graph_parts.h"

namespace dynrun::lowering {

/// Cuts a graph wherever the GPU changes and around dynrun::require_truth: each part touches one GPU alone, or several in each node, as copies
/// from one to another do, or looks at values. Nothing where that makes one part, where gradients are recorded, where one part would write
/// what another may have, or where there would be too many parts to be worth their calls.
std::vector<GraphPart> split_at_devices(const graph::Graph& graph);

}  // namespace dynrun::lowering
