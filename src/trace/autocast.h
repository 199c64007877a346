#pragma once
// Autocast as it is recorded: the casts that it makes are nodes, and the operators behind them run without it.
//
// Inside of a region torch keeps the cast of a weight until the region ends, also when the weight is written meanwhile. A region that
// begins in the recording is recorded as it went. Where one had begun before, the cast of a weight is the node `dynrun::cached_cast`,
// which asks torch's own cache; compiled code, which casts the weight itself, runs where the two are the same (trace/weight_casts.h).

#include "graph/graph.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <vector>

namespace dynrun::trace {

/// The autocast key whose kernel a call of `op` is about to run, kUndefined if none.
c10::DispatchKey autocast_kernel(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);
/// The same, of any library's kernels.
c10::DispatchKey casting_key(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);
/// Whether a region of autocast has begun on this thread.
bool is_in_region();
/// Whether an operator on these arguments, or one that it is made of, might be cast.
bool may_be_cast(const torch::jit::Stack& stack, std::size_t first);
/// Whether there is any tensor among them that autocast casts.
bool has_castable(const torch::jit::Stack& stack, std::size_t first);
std::vector<at::Tensor> tensors_of(const torch::jit::Stack& stack, std::size_t first);
/// The device that an autocast key is for.
c10::DeviceType autocast_device(c10::DispatchKey key);

/// Whether autocast keeps the cast of `tensor` to `dtype` for the rest of a region (ATen/autocast_mode.cpp).
bool keeps_cast(const at::Tensor& tensor, c10::ScalarType dtype);
/// The cast that torch keeps of `weight` in a region of that dtype, made where there is none.
at::Tensor kept_cast(const at::Tensor& weight, c10::ScalarType dtype);
/// `dynrun::cached_cast(Tensor self, ScalarType dtype) -> Tensor`: as autocast would cast it here.
const c10::OperatorHandle& cached_cast();
/// The kept cast that `cast` is of one of `tensors`, which is then given; else an undefined tensor.
at::Tensor cast_from(const std::vector<at::Tensor>& tensors, const at::Tensor& cast);

}  // namespace dynrun::trace
