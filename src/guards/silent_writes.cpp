#include "guards/silent_writes.h"

#include "graph/writes.h"
#include "guards/storage_watch.h"

#include <ATen/RedispatchFunctions.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>

namespace dynrun::guards {

bool is_running_statistic(std::string_view op, const c10::Argument& argument) {
  const bool norm = op.find("batch_norm") != std::string_view::npos || op.find("instance_norm") != std::string_view::npos;
  return norm && (argument.name() == "running_mean" || argument.name() == "running_var");
}

bool is_training_flag(const c10::Argument& argument) { return argument.name() == "training" || argument.name() == "train" || argument.name() == "use_input_stats"; }

namespace {

void run_rest(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) { op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack); }

/// A norm of batches, or a part of one: it writes running statistics, but for one that is told not to train.
void run_norm(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  std::vector<at::Tensor> statistics;
  bool trains = true;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& value = (*stack)[stack->size() - arguments.size() + i];
    if (is_training_flag(arguments[i])) trains = value.toBool();
    if (value.isTensor() && is_running_statistic(op.operator_name().name, arguments[i])) statistics.push_back(value.toTensor());
  }
  run_rest(op, keys, stack);
  if (trains) std::for_each(statistics.begin(), statistics.end(), note_written);
}

/// What these give lies in the memory of what they are given, with a version counter of its own.
void run_alias(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  note_written((*stack)[stack->size() - op.schema().arguments().size()].toTensor());
  run_rest(op, keys, stack);
}
at::Tensor unsafe_view(c10::DispatchKeySet keys, const at::Tensor& self, c10::SymIntArrayRef size) {
  note_written(self);
  return at::redispatch::_unsafe_view_symint(keys & c10::after_ADInplaceOrView_keyset, self, size);
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
  std::for_each(written.begin(), written.end(), is_waited_for ? note_written : give_away);
}

/// A collective that says what it writes, and is waited for elsewhere.
void run_functional_collective(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  std::vector<at::Tensor> written;
  graph::visit_written(op, *stack, stack->size() - op.schema().arguments().size(), [&](const at::Tensor& tensor) { written.push_back(tensor); });
  run_rest(op, keys, stack);
  std::for_each(written.begin(), written.end(), give_away);
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, ADInplaceOrView, m) {
  for (const char* name : {"native_batch_norm", "_native_batch_norm_legit", "cudnn_batch_norm", "miopen_batch_norm", "batch_norm_update_stats", "batch_norm_gather_stats",
                           "batch_norm_gather_stats_with_counts"}) {
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_norm>());
  }
  for (const char* name : {"unsafe_split.Tensor", "unsafe_split_with_sizes"}) m.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_alias>());
  m.impl("_unsafe_view", TORCH_FN(unsafe_view));
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
