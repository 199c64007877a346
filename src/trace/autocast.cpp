#include "trace/autocast.h"

#include "trace/operator_keys.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <string_view>

namespace dynrun::trace {
namespace {

template <typename Visit>
void visit_tensors(const torch::jit::Stack& stack, std::size_t first, const Visit& visit) {
  for (std::size_t i = first; i < stack.size(); i++) {
    if (stack[i].isTensor() && stack[i].toTensor().defined()) visit(stack[i].toTensor());
    if (!stack[i].isTensorList() && !stack[i].isOptionalTensorList()) continue;
    for (const c10::IValue& item : stack[i].toListRef()) {
      if (item.isTensor() && item.toTensor().defined()) visit(item.toTensor());
    }
  }
}

c10::DispatchKeySet keys_of(const torch::jit::Stack& stack, std::size_t first) {
  c10::DispatchKeySet keys;
  visit_tensors(stack, first, [&](const at::Tensor& tensor) { keys = keys | tensor.key_set(); });
  const auto local = c10::impl::tls_local_dispatch_key_set();
  return ((keys | local.included_) - local.excluded_).remove(kRecorderKey);
}

bool is_on() { return at::autocast::is_autocast_enabled(at::kCPU) || at::autocast::is_autocast_enabled(at::kCUDA); }

/// Their kernels cast and call the operator again, and look at nothing but types.
bool only_casts(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  return name.rfind("aten::", 0) == 0 || name.rfind("torchvision::", 0) == 0;
}

at::Tensor make_cached_cast(const at::Tensor& self, at::ScalarType dtype) {
  const c10::DeviceType device = self.device().type();
  return device == c10::kCPU || device == c10::kCUDA ? kept_cast(self, dtype) : self.to(dtype);
}

TORCH_LIBRARY_FRAGMENT(dynrun, library) { library.def("cached_cast(Tensor self, ScalarType dtype) -> Tensor"); }
TORCH_LIBRARY_IMPL(dynrun, CompositeImplicitAutograd, library) { library.impl("cached_cast", make_cached_cast); }

}  // namespace

c10::DispatchKey autocast_kernel(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  return only_casts(op) ? casting_key(op, stack, first) : c10::DispatchKey::Undefined;
}

bool is_in_region() {
  const int nesting = at::autocast::increment_nesting() - 1;
  at::autocast::decrement_nesting();
  return nesting > 0;
}

at::Tensor kept_cast(const at::Tensor& weight, c10::ScalarType dtype) {
  const c10::DeviceType device = weight.device().type();
  struct Switches {
    explicit Switches(c10::DeviceType of) : device(of) {}
    ~Switches() {
      at::autocast::set_autocast_dtype(device, dtype);
      at::autocast::set_autocast_cache_enabled(cache);
    }
    c10::DeviceType device;
    c10::ScalarType dtype = at::autocast::get_autocast_dtype(device);
    bool cache = at::autocast::is_autocast_cache_enabled();
  } const before(device);
  at::autocast::set_autocast_dtype(device, dtype);
  at::autocast::set_autocast_cache_enabled(true);
  return at::autocast::cached_cast(dtype, weight, device);
}

c10::DispatchKey casting_key(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  if (!is_on()) return c10::DispatchKey::Undefined;
  const c10::DispatchKey key = keys_of(stack, first).highestPriorityTypeId();
  const bool casts = c10::autocast_dispatch_keyset.has(key) && op.hasKernelForDispatchKey(key) && !op.isKernelFallthroughKernel(key);
  return casts ? key : c10::DispatchKey::Undefined;
}

bool may_be_cast(const torch::jit::Stack& stack, std::size_t first) { return is_on() && keys_of(stack, first).has_any(c10::autocast_dispatch_keyset); }

bool has_castable(const torch::jit::Stack& stack, std::size_t first) {
  bool any = false;
  visit_tensors(stack, first, [&](const at::Tensor& tensor) { any = any || (tensor.is_floating_point() && tensor.scalar_type() != at::kDouble); });
  return any;
}

std::vector<at::Tensor> tensors_of(const torch::jit::Stack& stack, std::size_t first) {
  std::vector<at::Tensor> tensors;
  visit_tensors(stack, first, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  return tensors;
}

c10::DeviceType autocast_device(c10::DispatchKey key) { return key == c10::DispatchKey::AutocastCPU ? c10::kCPU : c10::kCUDA; }

bool keeps_cast(const at::Tensor& tensor, c10::ScalarType dtype) {
  const c10::DeviceType device = tensor.device().type();
  if (device != c10::kCPU && device != c10::kCUDA) return false;
  return at::autocast::is_autocast_cache_enabled() && dtype == at::autocast::get_autocast_dtype(device) && tensor.scalar_type() == at::kFloat &&
         tensor.requires_grad() && tensor.is_leaf() && !tensor.is_view();
}

const c10::OperatorHandle& cached_cast() {
  static const c10::OperatorHandle op = c10::Dispatcher::singleton().findSchemaOrThrow("dynrun::cached_cast", "");
  return op;
}

at::Tensor cast_from(const std::vector<at::Tensor>& tensors, const at::Tensor& cast) {
  for (const at::Tensor& tensor : tensors) {
    const bool alike = tensor.device() == cast.device() && tensor.sizes() == cast.sizes() && keeps_cast(tensor, cast.scalar_type());
    if (alike && kept_cast(tensor, cast.scalar_type()).is_same(cast)) return tensor;
  }
  return {};
}

}  // namespace dynrun::trace
