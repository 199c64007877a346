#pragma once
// Runs a graph's text through fold_batch_norm, choose_layouts and claim_library_kernels alone, and compares with the operators.

#include "lowering/extern/library_kernel.h"
#include "lowering/passes/passes.h"

#include <map>
#include <string>
#include <vector>

namespace dynrun::lowering::test {

/// A graph with library kernels for what they claim and the dispatcher for all else.
class ExternProgram {
 public:
  ExternProgram(std::shared_ptr<const graph::Graph> graph, const std::vector<at::Tensor>& examples);
  std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;
  std::vector<std::string> claimed_steps() const;
  int step_count() const { return static_cast<int>(steps_.size()); }
  const std::vector<bool>& folded() const { return program_.folded; }
  /// The best time of each step and what it is, in order.
  std::vector<std::string> time_steps(const std::vector<at::Tensor>& inputs) const;

 private:
  struct PlannedStep {
    std::unique_ptr<runtime::Step> step;
    const LibraryKernel* kernel = nullptr;  // null: the dispatcher
    std::vector<graph::ValueId> outputs;
  };
  void refresh_views(runtime::Slots& slots, graph::ValueId root) const;
  void run_step(const PlannedStep& planned, runtime::Slots& slots) const;

  Options options_;
  Program program_;
  std::vector<LibraryKernel> kernels_;
  std::vector<PlannedStep> steps_;
  std::map<graph::ValueId, std::vector<graph::ValueId>> views_;
};

struct ExternRun {
  std::vector<at::Tensor> outputs, expected;
  std::vector<std::string> steps;  // what was claimed
  int dispatched = 0;              // nodes left to the dispatcher
  std::vector<bool> folded;
};

/// A tensor of the input's type with strides as declared; parameters and activations alike from a normal distribution.
std::vector<at::Tensor> random_inputs(const graph::Graph& graph);
/// Lowers with `examples`, runs with `inputs`.
ExternRun run_extern(const std::string& text, const std::vector<at::Tensor>& examples, const std::vector<at::Tensor>& inputs);
ExternRun run_extern(const std::string& text);

/// torch.testing.assert_close's float32 rule, NaN equal to NaN, and equal strides. `slack`: how much larger inner values may be
/// than results that a bounded function has cut off.
bool close(const at::Tensor& actual, const at::Tensor& expected, double slack = 1);
bool all_close(const ExternRun& run, double slack = 1);
bool claimed(const ExternRun& run, const std::string& what);

}  // namespace dynrun::lowering::test
