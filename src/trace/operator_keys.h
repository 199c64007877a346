#pragma once
// The dispatch key that operators are recorded with, and what its fallback does besides.

#include <ATen/core/Tensor.h>
#include <c10/core/DispatchKeySet.h>

#include <atomic>
#include <functional>

namespace dynrun::trace {

inline constexpr c10::DispatchKey kRecorderKey = c10::DispatchKey::TESTING_ONLY_GenericMode;

/// Excluded where graphs are looked at, compiled and run: what needs autocast has it as its mode.
inline constexpr c10::DispatchKeySet kRecordedKeys = c10::autocast_dispatch_keyset.add(kRecorderKey);

/// What is called for each operator that is counted (`operator_count`) while nothing records it, before it runs; null: nothing. It may
/// be called on any thread, with the GIL or without.
std::atomic<void (*)()>& outside_hook();

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
