#pragma once
// Shape functions: what an operator gives on tensors of other sizes, without computing it.
//
// Tensors stand for their types: they lie on the Meta device and have no memory. A rule is written for a family of operators; no
// kernel runs, and no Python code (torch's own kernels for the Meta device are mostly Python).

#include "graph/graph.h"

#include <ATen/core/stack.h>

namespace dynrun::graph {

/// Takes the node's arguments from `stack`, as its schema says, and puts its results there. `recorded`: the types of the node's
/// results in the recording; dtypes are taken from there. False, with the stack as it was, where no rule covers the node.
/// Throws c10::Error where the operator would raise.
bool infer(const Node& node, const Graph& recorded, torch::jit::Stack& stack);

}  // namespace dynrun::graph
