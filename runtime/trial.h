#pragma once
// Sizes by trial: an operator of torch's that no shape function covers is run on stand-ins, tensors of its arguments' sizes with
// contents that are made up. An operator of another library is asked for its sizes by its kernel for tensors without memory.

#include "graph/graph.h"

#include <ATen/core/stack.h>

#include <functional>

namespace dynrun::runtime {

/// Puts the node's results on `stack`, on the Meta device: those of the operator itself. `value` tells an argument: a tensor on the Meta
/// device, or a number. False, with an empty stack, where the operator raises on the stand-ins, where its results depend on their
/// contents, where it changes an argument's sizes, or where another library's has no such kernel.
bool try_out(const graph::Node& node, const graph::Graph& recorded, const std::function<const c10::IValue&(graph::ValueId)>& value,
             torch::jit::Stack& stack);

}  // namespace dynrun::runtime
