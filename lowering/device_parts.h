#pragma once
// A graph whose tensors lie on several GPUs, as those of a model that is spread over them do: each GPU's part is compiled by itself.

#include "graph/graph.h"
#include "runtime/executable.h"

#include <memory>
#include <vector>

namespace dynrun::lowering {

/// Nodes that follow one another in a graph and touch one GPU alone, or several each, as copies from one to another do. Its inputs and
/// outputs are values of the whole graph, under their numbers there.
using DevicePart = std::shared_ptr<graph::Graph>;

/// Cuts a graph wherever the GPU changes. Nothing where there is one GPU or none, where gradients are recorded, where one part would
/// write what another may have, or where the GPU changes too often for parts to be worth their calls.
std::vector<DevicePart> split_between_devices(const graph::Graph& graph);

/// Runs the parts in order. `graph`: the whole. Throws what a part throws.
std::unique_ptr<runtime::Executable> join_parts(const graph::Graph& graph, const std::vector<DevicePart>& parts,
                                                std::vector<std::unique_ptr<runtime::Executable>> executables);

}  // namespace dynrun::lowering
