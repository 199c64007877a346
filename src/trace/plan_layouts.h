#pragma once
// What of the recording's layouts every choice of sizes has to share.
//
// Operators take tensors of any sizes, one element among them. What C code in front of the dispatcher asks of a tensor, whether it
// is contiguous, has to have the answer that was recorded. So has what decides whether an operator copies or gives a view, where
// somebody could tell: where that memory is written or handed out, or where it may give its argument itself. Where gradients are recorded, where sizes depend on data and where
// memory from outside is written, all values have to lie as they did: the same dimensions of one element, contiguous or not.

#include "graph/graph.h"

#include <functional>
#include <unordered_set>
#include <vector>

namespace dynrun::trace {

class PlanLayouts {
 public:
  using Types = std::function<graph::TensorType(graph::ValueId)>;

  PlanLayouts() = default;  // all values lie as they did
  /// `asked`: values whose layout C code in front of the dispatcher has asked for. `unseen`: arguments of `contiguous` that it may give
  /// itself or copy, since nobody can tell.
  PlanLayouts(const graph::Graph& graph, const std::unordered_set<graph::ValueId>& asked, const std::unordered_set<graph::ValueId>& unseen);

  /// Whether a size of 2 or more may become 1, or the other way round.
  bool ones_vary() const { return !all_; }
  /// Whether values of these types may take the places of the recorded ones. `dtypes` are compared by the caller.
  bool hold(const graph::Graph& graph, const Types& now) const;

 private:
  bool all_ = true;
  std::unordered_set<graph::ValueId> asked_;
  std::vector<std::size_t> copies_;  // nodes that copy or not as their argument lies
};

}  // namespace dynrun::trace
