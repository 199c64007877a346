// The operators that autocast casts for, as an OperatorRecorder notes them.

#include "graph/visit.h"
#include "trace/autocast.h"
#include "trace/operator_keys.h"
#include "trace/operator_recorder.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <utility>

namespace dynrun::trace {
namespace {

/// While it lives, what is called on this thread comes to the recorder, also from inside of an operator.
class WithKey {
 public:
  WithKey() { c10::impl::tls_set_dispatch_key_excluded(kRecorderKey, false); }
  ~WithKey() { c10::impl::tls_set_dispatch_key_excluded(kRecorderKey, true); }
  WithKey(const WithKey&) = delete;
  WithKey& operator=(const WithKey&) = delete;
};

}  // namespace

/// Runs the kernel of autocast: its casts and the operator that it calls are recorded, not itself.
void OperatorRecorder::call_casting(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack* stack, std::size_t first) {
  count_operators(-1);
  const std::vector<at::Tensor> operands = tensors_of(*stack, first);
  const auto* outer = std::exchange(cast_operands_, &operands);
  try {
    const WithKey with_key;
    op.redispatchBoxed(c10::DispatchKeySet(key), stack);
  } catch (...) {
    cast_operands_ = outer;
    refuse(Refusal::kRaised, op.schema().name());
    throw;
  }
  cast_operands_ = outer;
}

/// A call of `aten::to` that autocast makes for the operator that is about to run.
void OperatorRecorder::call_cast(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::size_t first) {
  count_operators(-1);
  const at::Tensor from = (*stack)[first].toTensor();
  op.callBoxed(stack);
  const at::Tensor& cast = stack->back().toTensor();
  if (refusal_ == Refusal::kNone) record_cast(from, cast);
}

void OperatorRecorder::record_cast(const at::Tensor& from, const at::Tensor& cast) {
  static const auto convert = c10::Dispatcher::singleton().findSchemaOrThrow("aten::to", "dtype");
  graph::Argument source;
  if (!tensor_argument(from, source)) return;
  const bool kept = keeps_cast(from, cast.scalar_type());
  const bool cached = kept && (casts_may_be_kept || !is_in_region());  // what is switched on without a region is kept for ever
  graph::Node node{cached ? cached_cast() : convert, {source, graph::Argument::constant(cast.scalar_type())}, {}, {}, mode_now(), source_};
  if (!cached) {
    for (const c10::IValue& rest : {c10::IValue(false), c10::IValue(false), c10::IValue()}) node.arguments.push_back(graph::Argument::constant(rest));
  }
  if (!record_results(node.op, node, {cast}, 0)) return refuse(Refusal::kUnsupportedLayout, node.op.schema().name());
  if (touches_unsized(node) && !learn_data_sizes(node)) return refuse(Refusal::kDataDependent, node.op.schema().name());
  note_constants(node.op, node, !cached && only_constants({from}, 0));
  casts_.insert(node.outputs[0]);
  if (kept && !cached) kept_casts_.push_back({source.value(), node.outputs[0]});
  graph_->nodes.push_back(std::move(node));
}

/// Where a kept cast of before the recording is the operand of an operator that autocast runs: the node that makes it.
bool OperatorRecorder::record_kept_cast(const at::Tensor& cast) {
  const at::Tensor from = cast_operands_ ? cast_from(*cast_operands_, cast) : at::Tensor();
  if (!from.defined()) return false;
  record_cast(from, cast);
  return refusal_ == Refusal::kNone;
}

/// An operator that has no kernel of autocast's: whether those that it is made of have one, which is then its mode.
void OperatorRecorder::call_watched(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::size_t first, graph::Mode& mode) {
  if (!may_be_cast(*stack, first)) return op.callBoxed(stack);
  c10::DispatchKey seen = c10::DispatchKey::Undefined;
  {
    const WatchedCasts watched(&seen);
    const WithKey with_key;
    op.callBoxed(stack);
  }
  if (seen == c10::DispatchKey::Undefined) return;
  mode.autocast = true;
  mode.autocast_device = autocast_device(seen);
  mode.autocast_dtype = at::autocast::get_autocast_dtype(mode.autocast_device);
}

void OperatorRecorder::forget_casts() {
  casts_may_be_kept = false;
  kept_casts_.clear();
}

std::size_t OperatorRecorder::cast_count() const {
  return static_cast<std::size_t>(std::count_if(graph_->nodes.begin(), graph_->nodes.end(), [&](const graph::Node& node) { return !node.outputs.empty() && casts_.count(node.outputs[0]) != 0; }));
}

/// Autocast makes casts that it keeps with gradients, under no_grad() too: where no operator that needs them follows, without.
void OperatorRecorder::drop_unused_gradients() {
  std::unordered_set<graph::ValueId> needed(graph_->outputs.begin(), graph_->outputs.end());
  for (const graph::Node& node : graph_->nodes) {
    if (node.mode.grad_enabled) graph::visit_values(node, [&](graph::ValueId id) { needed.insert(id); });
  }
  for (graph::Node& node : graph_->nodes) {
    if (node.outputs.empty() || casts_.count(node.outputs[0]) == 0 || needed.count(node.outputs[0]) != 0) continue;
    node.mode.grad_enabled = false;
    std::get<graph::TensorType>(graph_->values[static_cast<std::size_t>(node.outputs[0])].type).requires_grad = false;
  }
}

graph::Mode OperatorRecorder::mode_now() {
  graph::Mode mode;
  mode.grad_enabled = c10::GradMode::is_enabled();
  mode.inference = c10::InferenceMode::is_enabled();
  return mode;
}

}  // namespace dynrun::trace
