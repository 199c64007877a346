#pragma once
// A graph in parts that run one after the other: what cannot be compiled as one may be compiled part by part.

#include "graph/graph.h"
#include "runtime/executable.h"

#include <memory>
#include <vector>

namespace dynrun::lowering {

/// Some of a graph's nodes. Its inputs and outputs are values of the whole graph, under their numbers there.
using GraphPart = std::shared_ptr<graph::Graph>;

/// The parts of a graph, in the order in which they run. `part_of`: for each node the part it belongs to, from 0 on; no part takes what a
/// later one makes.
std::vector<GraphPart> make_parts(const graph::Graph& graph, const std::vector<std::size_t>& part_of);

/// Runs the parts in order. `graph`: the whole. Throws what a part throws.
std::unique_ptr<runtime::Executable> join_parts(const graph::Graph& graph, const std::vector<GraphPart>& parts,
                                                std::vector<std::unique_ptr<runtime::Executable>> executables);

}  // namespace dynrun::lowering
