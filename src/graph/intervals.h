#pragma once
// Which numbers may stand in a tensor of integers, told by the operators that made it.

#include "graph/graph.h"

#include <cstdint>
#include <optional>

namespace dynrun::graph {

/// From `low` to `high`, both included.
struct Interval {
  std::int64_t low = 0, high = 0;
  bool operator==(const Interval&) const = default;
};

/// The numbers that the value may hold, whatever the graph's inputs hold and wherever in the graph it is read; nothing where its
/// operators do not tell, or where something is written to what it comes from. Sizes are those of the values' types.
std::optional<Interval> interval_of(const Graph& graph, ValueId id);

/// An index that lies within a dimension of a tensor, so that its operator cannot raise.
struct RangeProof {
  ValueId index, of;
  std::int64_t dimension;
};
bool holds(const Graph& graph, const RangeProof& proof);

}  // namespace dynrun::graph
