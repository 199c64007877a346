#pragma once
// The parts of a graph, each compiled or replayed, become one executable.

#include "lowering/graph_parts.h"
#include "lowering/lower.h"

#include <map>
#include <set>

namespace dynrun::lowering {

/// Takes the parts of `graph` in order, by `compile` or `replay`; what it is made of must outlive it.
class PartsLowering {
 public:
  PartsLowering(const graph::Graph& graph, const std::vector<GraphPart>& parts, c10::ArrayRef<at::Tensor> examples, const Options& options);

  /// Lowers the next part.
  void compile();
  /// Has libtorch replay the next part.
  void replay();
  /// Runs the part that was taken last, which must leave no trace: later parts are lowered for what it makes.
  void run_on_examples();
  /// What `part` takes: inputs of the whole, and what was made of them or is like it.
  std::vector<at::Tensor> examples_of(const graph::Graph& part) const;
  /// Once each part was taken: all of them, one after the other.
  Lowered join();

 private:
  const GraphPart& next() const { return parts_[executables_.size()]; }
  at::Tensor example_of(graph::ValueId id, const graph::Graph& part) const;

  const graph::Graph& graph_;
  const std::vector<GraphPart>& parts_;
  c10::ArrayRef<at::Tensor> examples_;
  const Options& options_;
  std::map<graph::ValueId, std::size_t> input_of_;  // which input of the whole a value is
  std::map<graph::ValueId, at::Tensor> made_;       // by parts that ran
  std::vector<std::unique_ptr<runtime::Executable>> executables_;
  std::set<int> folded_;
  bool guessed_ = false;
};

}  // namespace dynrun::lowering
