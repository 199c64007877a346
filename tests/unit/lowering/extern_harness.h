#pragma once
// Runs a graph's text through fold_batch_norm, choose_layouts and claim_library_kernels alone, and compares with the operators.

#include "lowering/extern/library_kernel.h"

#include <string>
#include <vector>

namespace dynrun::lowering::test {

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

/// torch.testing.assert_close's float32 rule, NaN equal to NaN, and equal strides.
bool close(const at::Tensor& actual, const at::Tensor& expected);
bool all_close(const ExternRun& run);
bool claimed(const ExternRun& run, const std::string& what);

}  // namespace dynrun::lowering::test
