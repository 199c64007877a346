// What is called on a thread, as the fallback of the recorder's dispatch key meets it.

#include "trace/operator_keys.h"

#include "trace/autocast.h"
#include "trace/operator_recorder.h"

#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <utility>

namespace dynrun::trace {
namespace {

constexpr c10::DispatchKey kKey = kRecorderKey;

thread_local OperatorRecorder* current = nullptr;
thread_local bool inside = false;
thread_local bool counted = false;
thread_local c10::DispatchKey* watched_casts = nullptr;
thread_local const std::function<at::Tensor()>* given_cast = nullptr;

/// What an operator is made of.
void watch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - op.schema().arguments().size();
  if (*watched_casts == c10::DispatchKey::Undefined && has_castable(*stack, first)) *watched_casts = casting_key(op, *stack, first);
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

void give_cast(torch::jit::Stack* stack, std::size_t arguments) {
  const auto make = std::exchange(given_cast, nullptr);
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kKey);
  torch::jit::drop(*stack, arguments);
  stack->emplace_back((*make)());
}

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (given_cast && op.schema().name() == "aten::to") return give_cast(stack, op.schema().arguments().size());
  if (watched_casts) return watch(op, keys, stack);
  operator_count().fetch_add(1, std::memory_order_relaxed);
  if (current == nullptr && outside_hook().load(std::memory_order_relaxed)) outside_hook().load()();
  c10::impl::ExcludeDispatchKeyGuard inner(kKey);
  const bool outer = std::exchange(inside, true);
  try {
    if (current == nullptr) op.callBoxed(stack);
    else current->call(op, stack);
  } catch (...) {
    inside = outer;
    throw;
  }
  inside = outer;
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace

std::atomic<std::uint64_t>& operator_count() {
  static std::atomic<std::uint64_t> count{0};
  return count;
}

std::atomic<void (*)()>& outside_hook() {
  static std::atomic<void (*)()> hook{nullptr};
  return hook;
}

GivenCast::GivenCast(std::function<at::Tensor()> make)
    : make_(std::move(make)), included_(c10::impl::tls_is_dispatch_key_included(kKey)), excluded_(c10::impl::tls_is_dispatch_key_excluded(kKey)) {
  given_cast = &make_;
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  c10::impl::tls_set_dispatch_key_excluded(kKey, false);
}

GivenCast::~GivenCast() {
  c10::impl::tls_set_dispatch_key_excluded(kKey, excluded_);
  c10::impl::tls_set_dispatch_key_included(kKey, included_);
  given_cast = nullptr;
}

WatchedCasts::WatchedCasts(c10::DispatchKey* seen) : outer_(std::exchange(watched_casts, seen)) {}

WatchedCasts::~WatchedCasts() { watched_casts = outer_; }

bool inside_operator() { return inside || c10::impl::tls_is_dispatch_key_excluded(kKey); }

void count_on_this_thread(bool on) {
  counted = on;
  c10::impl::tls_set_dispatch_key_included(kKey, on);
}
bool counts_on_this_thread() { return c10::impl::tls_is_dispatch_key_included(kKey); }

RecordingScope::RecordingScope(OperatorRecorder* recorder)
    : outer_(std::exchange(current, recorder)), key_was_on_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

RecordingScope::~RecordingScope() {
  current = outer_;
  c10::impl::tls_set_dispatch_key_included(kKey, key_was_on_);
}

UnrecordedScope::UnrecordedScope() : without_key_(kKey), outer_(std::exchange(inside, true)) {}

UnrecordedScope::~UnrecordedScope() { inside = outer_; }

PlainKeysScope::PlainKeysScope() : key_was_on_(c10::impl::tls_is_dispatch_key_included(kKey)), outer_(std::exchange(inside, true)) {
  c10::impl::tls_set_dispatch_key_included(kKey, counted);
}

PlainKeysScope::~PlainKeysScope() {
  inside = outer_;
  c10::impl::tls_set_dispatch_key_included(kKey, key_was_on_);
}

}  // namespace dynrun::trace
