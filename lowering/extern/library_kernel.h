#pragma once
// The seam between lowering and the library kernels: who claims which nodes before loop fusion takes the rest.
//
// Order of lowering: functionalise, remove dead nodes, fold constants, fold_batch_norm, layout (both here: Program -> Program),
// claim_library_kernels, then loop fusion over every node that nobody claimed, then the memory plan. A node that neither
// claims is called through the dispatcher.

#include "lowering/program.h"
#include "runtime/step.h"

#include <functional>
#include <memory>
#include <vector>

namespace dynrun::lowering {

/// One library call that stands for a group of nodes (an operator with its pointwise epilogue, say).
struct LibraryKernel {
  /// Ascending. The call runs in the place of the last of them: every earlier one must be allowed to sink there
  /// (Program::can_sink) and its results that are not in `outputs` may have no other reader.
  std::vector<std::int32_t> nodes;
  /// What a run reads; values folded or prepacked into the step are not among them. Views and inputs are fine.
  std::vector<graph::ValueId> inputs;
  /// What it writes, each of the value's TensorType exactly.
  std::vector<graph::ValueId> outputs;
  /// False: the executor puts a tensor of the value's type, with uninitialised content, into each output slot before the step.
  /// True: the step assigns a tensor of its own to each output slot (slower: it cannot use the memory plan).
  bool makes_outputs = false;
  /// outputs[0] starts as the content of inputs[accumulate_into] (for a fused sum): the planner gives both one buffer when
  /// the input dies here, else it copies first. The step then finds the content in the output slot; both must be of one type.
  std::int32_t accumulate_into = -1;
  /// Builds the step once slots are numbered; `inputs` and `outputs` are in the order of the two lists above.
  std::function<std::unique_ptr<runtime::Step>(std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs)> make;
};

/// The calls that library kernels take over, by ascending last node, disjoint. Implemented in lowering/extern/.
std::vector<LibraryKernel> claim_library_kernels(Program& program);

/// Folds an eval-mode batch norm into the convolution before it (constants and parameters only). lowering/passes/fold_batch_norm.cpp
void fold_batch_norm(Program& program);

/// Chooses the memory layout of inner values, by rewriting their TensorType's strides (a value that has views, is handed out or
/// is written keeps its own). Conversions that are left are nodes `aten::clone`. lowering/passes/layout.cpp
void choose_layouts(Program& program);

}  // namespace dynrun::lowering
