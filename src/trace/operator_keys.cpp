// What is called on a thread, as the fallback of the recorder's dispatch key meets it.

#include "trace/operator_keys.h"

#include "trace/autocast.h"
#include "trace/operator_recorder.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

#include <utility>

namespace dynrun::trace {

thread_local constinit CallsHere calls_here;
constinit std::atomic<std::uint64_t> counted_operators{0};
constinit std::atomic<std::uint32_t (*)(std::uint32_t)> outside_hook{nullptr};

namespace {

constexpr c10::DispatchKey kKey = kRecorderKey;

bool all_threads_count = false;

/// What an operator is made of.
void watch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::size_t first = stack->size() - op.schema().arguments().size();
  if (*calls_here.watched_casts == c10::DispatchKey::Undefined && has_castable(*stack, first)) *calls_here.watched_casts = casting_key(op, *stack, first);
  op.redispatchBoxed(keys & kKeysBehind, stack);
}

void give_cast(torch::jit::Stack* stack, std::size_t arguments) {
  const auto make = std::exchange(calls_here.given_cast, nullptr);
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kKey);
  torch::jit::drop(*stack, arguments);
  stack->emplace_back((*make)());
}

}  // namespace

void counted_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (calls_here.given_cast && op.schema().name() == "aten::to") return give_cast(stack, op.schema().arguments().size());
  if (calls_here.watched_casts) return watch(op, keys, stack);
  const CountedCall counted(calls_here);
  if (calls_here.current == nullptr) op.redispatchBoxed(keys & kKeysBehind, stack);
  else calls_here.current->call(op, stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&counted_fallback>());
}

TORCH_LIBRARY_IMPL(aten, TESTING_ONLY_GenericMode, m) { count_common_operators(m); }

std::uint64_t operator_count() { return counted_operators.load(std::memory_order_relaxed) + calls_here.passed; }

std::uint64_t operators_here() { return calls_here.count; }

void count_operators(std::int64_t more) {
  calls_here.count += static_cast<std::uint64_t>(more);
  counted_operators.fetch_add(static_cast<std::uint64_t>(more), std::memory_order_relaxed);
}

GivenCast::GivenCast(std::function<at::Tensor()> make)
    : make_(std::move(make)), included_(c10::impl::tls_is_dispatch_key_included(kKey)), excluded_(c10::impl::tls_is_dispatch_key_excluded(kKey)) {
  calls_here.given_cast = &make_;
  c10::impl::tls_set_dispatch_key_included(kKey, true);
  c10::impl::tls_set_dispatch_key_excluded(kKey, false);
}

GivenCast::~GivenCast() {
  c10::impl::tls_set_dispatch_key_excluded(kKey, excluded_);
  c10::impl::tls_set_dispatch_key_included(kKey, included_);
  calls_here.given_cast = nullptr;
}

WatchedCasts::WatchedCasts(c10::DispatchKey* seen) : outer_(std::exchange(calls_here.watched_casts, seen)) {}

WatchedCasts::~WatchedCasts() { calls_here.watched_casts = outer_; }

bool inside_operator() { return calls_here.inside || c10::impl::tls_is_dispatch_key_excluded(kKey); }

namespace {

/// Sets one of the thread's flags, and the key as they are now.
void switch_counting(bool CallsHere::* flag, bool on) {
  calls_here.*flag = on;
  c10::impl::tls_set_dispatch_key_included(kKey, calls_here.counts());
}

}  // namespace

void measure_on_this_thread(bool on) { switch_counting(&CallsHere::measured, on); }

void count_on_all_threads(bool on) {
  all_threads_count = on;
  switch_counting(&CallsHere::counted, on);
}

void count_on_a_new_thread() {
  if (all_threads_count && !calls_here.counted && calls_here.current == nullptr) switch_counting(&CallsHere::counted, true);
}

Counting counting_here(std::uint64_t exact) {
  const CallsHere& calls = calls_here;
  if (!calls.counted || calls.left_uncounted || calls.count < exact || calls.measured || !calls.only_count()) return Counting::kNeeded;
  return inside_operator() ? Counting::kInside : Counting::kForReport;
}

LooksApart::LooksApart() : passed_(std::exchange(calls_here.passed, 0)), to_pass_(std::exchange(calls_here.to_pass, 0)) {}

LooksApart::~LooksApart() {
  calls_here.passed += passed_;
  calls_here.to_pass = to_pass_;
}

void go_on_counting() {
  if (counting_here(0) == Counting::kForReport) c10::impl::tls_set_dispatch_key_included(kKey, true);
}

UncountedScope::UncountedScope() { switch_counting(&CallsHere::left_uncounted, true); }

UncountedScope::~UncountedScope() { switch_counting(&CallsHere::left_uncounted, false); }

RecordingScope::RecordingScope(OperatorRecorder* recorder)
    : outer_(std::exchange(calls_here.current, recorder)), key_was_on_(c10::impl::tls_is_dispatch_key_included(kKey)) {
  c10::impl::tls_set_dispatch_key_included(kKey, true);
}

RecordingScope::~RecordingScope() {
  calls_here.current = outer_;
  c10::impl::tls_set_dispatch_key_included(kKey, key_was_on_);
}

UnrecordedScope::UnrecordedScope() : without_key_(kKey), outer_(std::exchange(calls_here.inside, true)) {}

UnrecordedScope::~UnrecordedScope() { calls_here.inside = outer_; }

PlainKeysScope::PlainKeysScope() : key_was_on_(c10::impl::tls_is_dispatch_key_included(kKey)), outer_(std::exchange(calls_here.inside, true)) {
  c10::impl::tls_set_dispatch_key_included(kKey, calls_here.counts());
}

PlainKeysScope::~PlainKeysScope() {
  calls_here.inside = outer_;
  c10::impl::tls_set_dispatch_key_included(kKey, key_was_on_);
}

}  // namespace dynrun::trace
