#pragma once
// Which values of a graph may lie in the same memory, and what is written.

#include "graph/graph.h"

#include <set>
#include <vector>

namespace dynrun::lowering {

class Aliases {
 public:
  explicit Aliases(const graph::Graph& graph);

  /// The values, inputs and what operators make anew, in whose memory a value may lie.
  const std::set<graph::ValueId>& roots(graph::ValueId id) const { return roots_[static_cast<std::size_t>(id)]; }
  /// Whether an operator of the graph writes memory that a value may lie in.
  bool is_written(graph::ValueId id) const;

 private:
  void add(const graph::Node& node);

  std::vector<std::set<graph::ValueId>> roots_;  // by value
  std::set<graph::ValueId> written_;             // roots
};

}  // namespace dynrun::lowering
