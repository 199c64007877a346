#pragma once
// The dispatch key that operators are recorded with, and what its fallback does besides.

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <atomic>
#include <functional>
#include <utility>

namespace dynrun::trace {

inline constexpr c10::DispatchKey kRecorderKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Those that are looked at behind it.
inline constexpr c10::DispatchKeySet kKeysBehind(c10::DispatchKeySet::FULL_AFTER, kRecorderKey);

/// Excluded where graphs are looked at, compiled and run: what needs autocast has it as its mode.
inline constexpr c10::DispatchKeySet kRecordedKeys = c10::autocast_dispatch_keyset.add(kRecorderKey);

class OperatorRecorder;

/// What becomes of the operators that are called on this thread.
struct CallsHere {
  OperatorRecorder* current = nullptr;  // records them
  bool inside = false;                  // they are inside of one that was called before
  bool counted = false, measured = false, left_uncounted = false;  // for reports, for loops, or not for reports just now
  std::uint64_t count = 0;
  std::uint32_t passed = 0, to_pass = 0;  // operators that are not in `counted_operators` yet, and how many may stay so
  c10::DispatchKey* watched_casts = nullptr;
  const std::function<at::Tensor()>* given_cast = nullptr;

  bool counts() const { return measured || (counted && !left_uncounted); }
  bool only_count() const { return current == nullptr && watched_casts == nullptr && given_cast == nullptr; }
};
extern thread_local constinit CallsHere calls_here;

extern constinit std::atomic<std::uint64_t> counted_operators;

/// What is called before an operator that is counted while nothing records it; null: nothing. It is told for how many of the thread's
/// operators the call stands, and says how many to let pass before the next. It may be called on any thread, with the GIL or without.
extern constinit std::atomic<std::uint32_t (*)(std::uint32_t)> outside_hook;

/// Counts a top-level operator; what is called while it lives is inside of that.
class CountedCall {
 public:
  /// On the thread that `calls` is of.
  explicit CountedCall(CallsHere& calls) : calls_(calls), inner_(kRecorderKey), outer_(std::exchange(calls.inside, true)) {
    if (calls.left_uncounted && !calls.measured && calls.current == nullptr) return;  // a mode has put the key back that it had found
    calls.count++;
    if (++calls.passed <= calls.to_pass && calls.current == nullptr) return;
    const auto hook = calls.current ? nullptr : outside_hook.load(std::memory_order_relaxed);
    const std::uint32_t passed = std::exchange(calls.passed, 0);
    counted_operators.fetch_add(passed, std::memory_order_relaxed);
    calls.to_pass = hook ? hook(passed) : 0;
  }
  ~CountedCall() { calls_.inside = outer_; }
  CountedCall(const CountedCall&) = delete;
  CountedCall& operator=(const CountedCall&) = delete;

 private:
  CallsHere& calls_;
  const c10::impl::ExcludeDispatchKeyGuard inner_;
  bool outer_;
};

/// The recorder's key has it for each operator that has no kernel of its own there: records it, counts it, or looks at it.
void counted_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack);

/// Kernels of the recorder's key that call what is only counted without making a stack of its arguments.
void count_common_operators(torch::Library& library);

/// While it lives nothing on this thread is recorded; `*seen` becomes the first autocast key whose kernel is about to run.
class WatchedCasts {
 public:
  explicit WatchedCasts(c10::DispatchKey* seen);
  ~WatchedCasts();
  WatchedCasts(const WatchedCasts&) = delete;
  WatchedCasts& operator=(const WatchedCasts&) = delete;

 private:
  c10::DispatchKey* outer_;
};

/// While it lives, the next `aten::to` on this thread gives what `make` gives, instead of running.
class GivenCast {
 public:
  explicit GivenCast(std::function<at::Tensor()> make);
  ~GivenCast();
  GivenCast(const GivenCast&) = delete;
  GivenCast& operator=(const GivenCast&) = delete;

 private:
  std::function<at::Tensor()> make_;
  bool included_, excluded_;
};

}  // namespace dynrun::trace
