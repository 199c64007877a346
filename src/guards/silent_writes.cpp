#include "guards/silent_writes.h"

#include "graph/writes.h"
#include "guards/storage_watch.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/batch_norm_native.h>
#include <torch/library.h>

namespace dynrun::guards {

bool is_running_statistic(std::string_view op, const c10::Argument& argument) {
  const bool norm = op.find("batch_norm") != std::string_view::npos || op.find("instance_norm") != std::string_view::npos;
  return norm && (argument.name() == "running_mean" || argument.name() == "running_var");
}

bool is_training_flag(const c10::Argument& argument) { return argument.name() == "training" || argument.name() == "train" || argument.name() == "use_input_stats"; }

namespace {

void note(const std::optional<at::Tensor>& tensor) {
  if (tensor && tensor->defined()) note_written(*tensor);
}

/// What it is made of calls the dispatcher itself, as without this kernel.
at::Tensor batch_norm(const at::Tensor& input, const std::optional<at::Tensor>& weight, const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& mean,
                      const std::optional<at::Tensor>& variance, bool training, double momentum, double eps, bool cudnn) {
  at::Tensor result = at::native::batch_norm(input, weight, bias, mean, variance, training, momentum, eps, cudnn);
  if (training) note(mean), note(variance);
  return result;
}

void run_rest(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) { op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack); }

/// What the operator's schema says that it writes.
std::vector<at::Tensor> written_by(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  std::vector<at::Tensor> written;
  graph::visit_written(op, stack, stack.size() - op.schema().arguments().size(), [&](const at::Tensor& tensor) { written.push_back(tensor); });
  return written;
}

/// A fused step of torch.optim.
void run_step(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::vector<at::Tensor> written = written_by(op, *stack);
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    run_rest(op, keys, stack);
  }
  for (const at::Tensor& tensor : written) note(tensor);
}

/// A collective of torch.distributed. Its schema does not say what it writes; the names of its arguments do. One that is not waited for
/// writes at any time from now on.
void run_collective(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  std::vector<at::Tensor> written;
  bool is_waited_for = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = (*stack)[stack->size() - arguments.size() + i];
    if (arguments[i].name() == "async_op") is_waited_for = !value.toBool();
    else if (arguments[i].name().rfind("input", 0) != 0) graph::collect_tensors(value, written);
  }
  run_rest(op, keys, stack);
  for (const at::Tensor& tensor : written) is_waited_for ? note(tensor) : give_away(tensor);
}

/// A collective that says what it writes, and is waited for elsewhere.
void run_functional_collective(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::vector<at::Tensor> written = written_by(op, *stack);
  run_rest(op, keys, stack);
  for (const at::Tensor& tensor : written) give_away(tensor);
}

}  // namespace

// By device: what an operator is made of goes before a kernel for all of them.
TORCH_LIBRARY_IMPL(aten, AutogradCPU, m) { m.impl("batch_norm", TORCH_FN(batch_norm)); }
TORCH_LIBRARY_IMPL(aten, AutogradCUDA, m) { m.impl("batch_norm", TORCH_FN(batch_norm)); }

TORCH_LIBRARY_IMPL(aten, ADInplaceOrView, m) {
  for (const char* name : {"_fused_adam_", "_fused_adam_.tensor_lr", "_fused_adamw_", "_fused_adamw_.tensor_lr", "_fused_sgd_", "_fused_sgd_.tensor_lr", "_fused_adagrad_",
                           "_fused_adagrad_.tensor_lr", "_amp_foreach_non_finite_check_and_unscale_"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_step>());
  }
}

TORCH_LIBRARY_IMPL(c10d, ADInplaceOrView, m) {
  for (const char* name : {"_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_", "allgather_into_tensor_coalesced_", "allreduce_",
                           "allreduce_coalesced_", "alltoall_", "alltoall_base_", "broadcast_", "gather_", "recv_", "recv_any_source_", "reduce_", "reduce_scatter_",
                           "reduce_scatter_tensor_coalesced_", "scatter_"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_collective>());
  }
}

TORCH_LIBRARY_IMPL(_c10d_functional, ADInplaceOrView, m) {
  for (const char* name : {"all_gather_into_tensor_out", "all_reduce_", "all_reduce_coalesced_", "broadcast_", "reduce_scatter_tensor_out"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_functional_collective>());
  }
}

}  // namespace dynrun::guards
