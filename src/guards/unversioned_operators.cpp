#include "guards/unversioned_operators.h"

#include "graph/writes.h"
#include "guards/storage_watch.h"

#include <ATen/core/boxing/KernelFunction.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace dynrun::guards {

namespace {

using c10::DispatchKey;

constexpr std::array<std::string_view, 4> kKnown = {"aten::", "prim::", "prims::", "dynrun::"};  // their schemas say what they write

bool is_known(std::string_view name) {
  return std::any_of(kKnown.begin(), kKnown.end(), [&](std::string_view library) { return name.starts_with(library); });
}

/// These move version counters themselves, or write no element.
bool needs_no_watch(std::string_view name) { return name.rfind("aten::_foreach_", 0) == 0 || name == "aten::record_stream" || name == "aten::detach_"; }

bool holds_tensors(const c10::Argument& formal) { return formal.type()->str().find("Tensor") != std::string::npos; }

/// What an operator is given that it writes, said or not.
std::vector<at::Tensor> written_by(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::size_t first = stack.size() - op.schema().arguments().size();
  std::vector<at::Tensor> written;
  if (!writes_unsaid(op)) graph::visit_written(op, stack, first, [&](const at::Tensor& tensor) { written.push_back(tensor); });
  else std::for_each(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end(), [&](const c10::IValue& value) { graph::collect_tensors(value, written); });
  return written;
}

/// Counts the writes when the operator has ended, well or not.
class Written {
 public:
  Written(const c10::OperatorHandle& op, const torch::jit::Stack& stack) : tensors_(written_by(op, stack)) {}
  Written(const Written&) = delete;
  Written& operator=(const Written&) = delete;
  ~Written() { std::for_each(tensors_.begin(), tensors_.end(), note_written); }

 private:
  std::vector<at::Tensor> tensors_;
};

void run_and_note(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Written written(op, *stack);
  op.redispatchBoxed(keys & c10::after_ADInplaceOrView_keyset, stack);
}

/// One that has a kernel for all keys alike, those of autograd too, which nothing below these is asked for: unless its library has gone, and
/// another has brought it with other kernels.
void run_composite_and_note(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Written written(op, *stack);
  for (DispatchKey key : {DispatchKey::Autograd, DispatchKey::CompositeImplicitAutograd}) {
    if (op.hasKernelForDispatchKey(key)) return op.callBoxedForDispatchKey(key, *stack);
  }
  op.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
}

/// Registered, and not looked at yet.
struct News {
  std::mutex mutex;
  std::vector<c10::OperatorName> names;
  std::atomic<bool> any = false;
};

News& news() {
  static auto* all = new News;
  return *all;
}

/// Called under the dispatcher's lock: kernels are registered later.
class Listener final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    const auto& formals = op.schema().arguments();
    if (!std::any_of(formals.begin(), formals.end(), graph::is_written) && !writes_unsaid(op)) return;
    {
      std::lock_guard<std::mutex> lock(news().mutex);
      news().names.push_back(op.operator_name());
      news().any = true;
    }
    note_all_written();
  }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    std::lock_guard<std::mutex> lock(news().mutex);
    std::erase(news().names, op.operator_name());
  }
};

/// Composite ones among the known are made of operators that are watched.
void watch(const c10::OperatorHandle& op) {
  const std::string& name = op.operator_name().name;
  const bool composite = op.hasKernelForDispatchKey(DispatchKey::CompositeImplicitAutograd);
  if (needs_no_watch(name) || (composite && is_known(name))) return;
  static auto* handles = new std::vector<c10::RegistrationHandleRAII>;  // of the process
  auto add = [&](DispatchKey key, auto kernel) {
    if (!op.hasKernelForDispatchKey(key)) handles->push_back(c10::Dispatcher::singleton().registerImpl(op.operator_name(), key, std::move(kernel), std::nullopt, nullptr, "dynrun"));
  };
  add(DispatchKey::ADInplaceOrView, c10::KernelFunction::makeFromBoxedFunction<&run_and_note>());
  if (!composite || op.hasKernelForDispatchKey(DispatchKey::Autograd)) return;
  for (DispatchKey key : {DispatchKey::AutogradCPU, DispatchKey::AutogradCUDA}) add(key, c10::KernelFunction::makeFromBoxedFunction<&run_composite_and_note>());
}

}  // namespace

bool writes_unsaid(const c10::OperatorHandle& op) {
  const std::string_view name = op.operator_name().name;
  const auto& formals = op.schema().arguments();
  if (is_known(name) || !(op.schema().returns().empty() || name.ends_with('_'))) return false;
  return std::any_of(formals.begin(), formals.end(), holds_tensors) &&
         std::none_of(formals.begin(), formals.end(), [](const c10::Argument& formal) { return formal.alias_info() != nullptr; });
}

void watch_operators() {
  static const auto* handle = new c10::RegistrationHandleRAII(c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
  (void)handle;
}

void watch_new_operators() {
  if (!news().any) return;
  std::vector<c10::OperatorName> names;
  {
    std::lock_guard<std::mutex> lock(news().mutex);
    names.swap(news().names);
    news().any = false;
  }
  static std::mutex one_at_a_time;
  std::lock_guard<std::mutex> lock(one_at_a_time);
  for (const c10::OperatorName& name : names) {
    if (const auto op = c10::Dispatcher::singleton().findSchema(name)) watch(*op);
  }
}

}  // namespace dynrun::guards
