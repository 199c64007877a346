#pragma once
// Whether operators that ran at the sizes of a recording can be trusted to neither raise nor warn at others, for what sizes have to do
// with each other: then code for these may be made before the operators have run once.

#include "graph/graph.h"

namespace dynrun::trace {

/// `recorded` and `now`: the same nodes, at other sizes. What is not known is not trusted.
bool sizes_are_sure(const graph::Graph& recorded, const graph::Graph& now);

}  // namespace dynrun::trace
