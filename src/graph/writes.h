#pragma once
// What an operator writes in place, by its schema.

#include "graph/torch_headers.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace dynrun::graph {

bool is_written(const c10::Argument& formal);

/// Each tensor that `op` is to write; its arguments lie on the stack from `first` on. One may be undefined.
void visit_written(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first, const std::function<void(const at::Tensor&)>& visit);

/// The tensors of an argument that is one, or a list of them, or a list of lists. Some may be undefined.
void collect_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors);

}  // namespace dynrun::graph
