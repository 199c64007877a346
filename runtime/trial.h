#pragma once
// Sizes by trial: an operator that no shape function covers is run on stand-ins, tensors of its arguments' sizes with contents
// that are made up.

#include "graph/graph.h"

#include <ATen/core/stack.h>

#include <functional>

namespace dynrun::runtime {

/// Puts the node's results on `stack`, on the Meta device: those of the operator itself. `value` tells an argument: a tensor on the Meta
/// device, or a number. False, with an empty stack, where the operator raises on the stand-ins, where its results depend on their
/// contents, or where it changes an argument's sizes.
bool try_out(const graph::Node& node, const graph::Graph& recorded, const std::function<const c10::IValue&(graph::ValueId)>& value,
             torch::jit::Stack& stack);

}  // namespace dynrun::runtime
