#pragma once
// Graphs for GPUs that are compiled part by part: those whose tensors lie on several GPUs, as a model's that is spread over them do, and
// those that look at a value on the way. Each part may become a CUDA graph.

#include "graph/graph.h"
#include "runtime/executable.h"

#include <memory>
#include <vector>

namespace dynrun::lowering {

/// Nodes that follow one another in a graph and touch one GPU alone; or several each, as copies from one to another do; or look at values.
/// Its inputs and outputs are values of the whole graph, under their numbers there.
using GraphPart = std::shared_ptr<graph::Graph>;

/// Cuts a graph wherever the GPU changes and around dynrun::require_truth. Nothing where that makes one part, where gradients are
/// recorded, where one part would write what another may have, or where there would be too many parts to be worth their calls.
std::vector<GraphPart> split_into_parts(const graph::Graph& graph);

/// Runs the parts in order. `graph`: the whole. Throws what a part throws.
std::unique_ptr<runtime::Executable> join_parts(const graph::Graph& graph, const std::vector<GraphPart>& parts,
                                                std::vector<std::unique_ptr<runtime::Executable>> executables);

}  // namespace dynrun::lowering
