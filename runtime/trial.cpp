#include "runtime/trial.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "runtime/dispatch.h"
#include "runtime/random_state.h"

#include <ATen/ATen.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/record_function.h>
#include <c10/util/Exception.h>
#ifdef DYNRUN_CUDA
#include <c10/core/DeviceGuard.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#endif

#include <optional>
#include <unordered_map>

namespace dynrun::runtime {

using graph::ValueId;

namespace {

using ValueOf = std::function<const c10::IValue&(ValueId)>;

/// Whatever an operator warns of, it has done so in the recording.
class Silence final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override {}
};

/// What a trial must leave as it is: random streams, warnings, profilers, and the program's hooks on tensors that autograd saves.
class Unseen {
 public:
  explicit Unseen(const std::vector<c10::Device>& drawn_from) : random_(drawn_from), hooks_(at::SavedTensorDefaultHooks::get_tls_state()), warnings_(&silence_) {
    at::SavedTensorDefaultHooks::set_tls_state({});
  }
  ~Unseen() {
    at::SavedTensorDefaultHooks::set_tls_state(hooks_);
    random_.restore();
  }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;

 private:
  RandomState random_;
  at::impl::SavedTensorDefaultHooksTLS hooks_;
  Silence silence_;
  c10::WarningUtils::WarningHandlerGuard warnings_;
  at::RecordFunctionGuard unprofiled_{false};
};

/// Tensors with made-up contents in the places of tensors without memory, one a value.
class StandIns {
 public:
  /// `kind`: 0 or 1, which contents. `gradients`: they require gradients where the recorded ones did.
  StandIns(const graph::Graph& recorded, const ValueOf& value, int kind, bool gradients) : recorded_(recorded), value_(value), kind_(kind), gradients_(gradients) {}

  const c10::IValue& operator()(ValueId id) {
    auto known = made_.find(id);
    if (known != made_.end()) return known->second;
    const c10::IValue& type = value_(id);
    if (!type.isTensor() || !type.toTensor().defined() || !type.toTensor().is_meta()) return type;
    return made_[id] = make(type.toTensor(), recorded_.type_of(id));
  }

  /// The value that `tensor` stands in for.
  ValueId find(const at::Tensor& tensor) const {
    for (const auto& [id, made] : made_) {
      if (made.toTensor().is_same(tensor)) return id;
    }
    return graph::kNoValue;
  }
  /// Whether all have still the sizes that they began with.
  bool unchanged() const {
    return std::all_of(made_.begin(), made_.end(), [&](const auto& one) {
      const at::Tensor &now = one.second.toTensor(), type = value_(one.first).toTensor();
      return now.sizes() == type.sizes() && now.strides() == type.strides();
    });
  }

 private:
  /// Matrices that every decomposition takes, indices that are in range, pivots (of int32, from 1 on) too. On a GPU probabilities: what is
  /// out of range ends all work there.
  at::Tensor make(const at::Tensor& type, const graph::TensorType& recorded) const {
    TORCH_CHECK(!recorded.lazy && recorded.strides.size() == recorded.sizes.size(), "only plain tensors have stand-ins");
    at::Tensor made = at::empty_strided(type.sizes(), type.strides(), type.options().device(recorded.device));
    const double scale = recorded.device.is_cpu() ? 1 + kind_ : 0.5 * (1 + kind_);
    const bool real = c10::isFloatingType(type.scalar_type()) || c10::isComplexType(type.scalar_type());
    // All of the memory: elements may lie in one place.
    at::Tensor memory = at::empty({0}, made.options()).set_(made.storage(), 0, {static_cast<std::int64_t>(made.storage().nbytes() / made.element_size())}, {1});
    memory.fill_(real || type.scalar_type() == at::kInt ? 1 : kind_);
    if (real && made.dim() >= 2 && made.is_non_overlapping_and_dense()) made.copy_(at::eye(made.size(-2), made.size(-1), made.options()).mul_(scale));
    if (gradients_ && recorded.requires_grad && real) made.requires_grad_(true);
    return made;
  }

  const graph::Graph& recorded_;
  const ValueOf& value_;
  int kind_;
  bool gradients_;
  std::unordered_map<ValueId, c10::IValue> made_;
};

/// A result as a tensor without memory; the argument itself where the operator gives one.
at::Tensor without_memory(const at::Tensor& result, const StandIns& stand_ins, const ValueOf& value) {
  if (!result.defined()) return result;
  TORCH_CHECK(result.layout() == at::kStrided && !result.is_conj() && !result.is_neg() && !result.is_quantized(), "only plain tensors have types");
  const ValueId argument = stand_ins.find(result);
  if (argument != graph::kNoValue) return value(argument).toTensor();
  return at::empty_strided(result.sizes(), result.strides(), at::TensorOptions().dtype(result.scalar_type()).device(at::kMeta));
}

/// The operator's results on stand-ins.
torch::jit::Stack run_once(const graph::Node& node, const graph::Graph& recorded, const ValueOf& value, int kind) {
  StandIns stand_ins(recorded, value, kind, !node.op.schema().is_mutable());
  torch::jit::Stack stack;
  push_arguments(node, [&](ValueId id) -> const c10::IValue& { return stand_ins(id); }, stack);
  {
    const ModeGuard mode(node.mode);
    call(node, stack);
  }
  TORCH_CHECK(stand_ins.unchanged(), "an argument has other sizes now");
  for (c10::IValue& result : stack) {
    if (result.isTensor()) {
      result = without_memory(result.toTensor(), stand_ins, value);
    } else if (result.isTensorList()) {
      std::vector<at::Tensor> items = result.toTensorVector();
      for (at::Tensor& item : items) item = without_memory(item, stand_ins, value);
      result = c10::IValue(std::move(items));
    }
  }
  return stack;
}

bool same_types(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && (!a.defined() || (a.sizes() == b.sizes() && a.strides() == b.strides() && a.scalar_type() == b.scalar_type()));
}

bool same_types(const c10::IValue& a, const c10::IValue& b) {
  if (a.isTensor()) return same_types(a.toTensor(), b.toTensor());
  if (!a.isTensorList()) return true;
  const std::vector<at::Tensor> left = a.toTensorVector(), right = b.toTensorVector();
  return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const at::Tensor& x, const at::Tensor& y) { return same_types(x, y); });
}

/// Whether an operator on a GPU may run on numbers that were made up. An index out of range would end the program: none is taken. Nor may it
/// become part of a graph that the program captures.
bool may_try_on_gpu([[maybe_unused]] const graph::Node& node, [[maybe_unused]] const graph::Graph& recorded, [[maybe_unused]] c10::Device device) {
#ifdef DYNRUN_CUDA
  bool plain = !node.op.schema().is_mutable() && drawn_from(recorded, node).empty();
  graph::visit_values(node, [&](ValueId id) { plain = plain && (recorded.type_of(id).number || c10::isFloatingType(recorded.type_of(id).dtype)); });
  const c10::OptionalDeviceGuard guard(device);
  return plain && c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None;
#else
  return false;
#endif
}

/// Whether the node takes tensors of the CPU alone, or one of a GPU with which it may be tried.
bool may_try(const graph::Node& node, const graph::Graph& recorded) {
  std::optional<c10::Device> gpu;
  bool other = false;
  graph::visit_values(node, [&](ValueId id) {
    const c10::Device device = recorded.type_of(id).device;
    other = other || !(device.is_cpu() || (device.is_cuda() && gpu.value_or(device) == device));
    if (device.is_cuda()) gpu = device;
  });
  return !other && (!gpu || may_try_on_gpu(node, recorded, *gpu));
}

/// An index of numbers takes as many elements as it has; a mask does not.
bool decided_by_data(const graph::Node& node, const ValueOf& value) {
  if (node.op.operator_name().name != "aten::index") return node.op.hasTag(at::Tag::dynamic_output_shape) || node.op.hasTag(at::Tag::data_dependent_output);
  bool any = false;
  graph::visit_values(node.arguments[1], [&](ValueId id) {
    any = any || graph::is_mask(value(id).toTensor().scalar_type());
  });
  return any;
}

/// What an operator says of tensors without memory. Those of libraries and programs are not run on numbers that were made up: few check
/// their indices, and nobody knows what else they do.
bool ask_without_memory(const graph::Node& node, const ValueOf& value, torch::jit::Stack& stack) {
  if (!node.op.hasComputedKernelForDispatchKey(c10::DispatchKey::Meta)) return false;
  push_arguments(node, value, stack);
  try {
    const ModeGuard mode(node.mode);
    call(node, stack);
  } catch (const std::exception&) {
    stack.clear();
    return false;
  }
  auto plain = [](const at::Tensor& tensor) { return !tensor.defined() || (tensor.is_meta() && tensor.layout() == at::kStrided); };
  return std::all_of(stack.begin(), stack.end(), [&](const c10::IValue& result) { return result.isTensor() && plain(result.toTensor()); });
}

}  // namespace

bool try_out(const graph::Node& node, const graph::Graph& recorded, const ValueOf& value, torch::jit::Stack& stack) {
  stack.clear();
  if (decided_by_data(node, value) || node.op.hasTag(at::Tag::inplace_view)) return false;
  const Unseen unseen(drawn_from(recorded, node));
  if (node.op.operator_name().name.rfind("aten::", 0) != 0) return !node.op.schema().is_mutable() && ask_without_memory(node, value, stack);
  if (!may_try(node, recorded)) return false;
  try {
    stack = run_once(node, recorded, value, 0);
  } catch (const std::exception&) {
    return false;
  }
  torch::jit::Stack other;
  try {
    other = run_once(node, recorded, value, 1);
  } catch (const std::exception&) {
    return true;  // an index out of range: the contents that all operators take have told
  }
  if (std::equal(stack.begin(), stack.end(), other.begin(), other.end(), [](const c10::IValue& a, const c10::IValue& b) { return same_types(a, b); })) return true;
  stack.clear();
  return false;
}

}  // namespace dynrun::runtime
