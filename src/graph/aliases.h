#pragma once
// Which values of a graph may lie in the same memory, and what is written.

#include "graph/graph.h"

#include <set>
#include <vector>

namespace dynrun::graph {

class Aliases {
 public:
  explicit Aliases(const Graph& graph);

  /// The values, inputs and what operators make anew, in whose memory a value may lie.
  const std::set<ValueId>& roots(ValueId id) const { return roots_[static_cast<std::size_t>(id)]; }
  /// Whether an operator of the graph writes memory that a value may lie in.
  bool is_written(ValueId id) const;

 private:
  void add(const Node& node);

  std::vector<std::set<ValueId>> roots_;  // by value
  std::set<ValueId> written_;             // roots
};

}  // namespace dynrun::graph
