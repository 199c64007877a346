#pragma once
// Time as cheap as it can be had: it is read several times in each replay while a report is wanted.

#include <chrono>
#include <cstdint>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace dynrun::report {

/// A count that grows evenly; `Clock` tells how fast.
inline std::uint64_t ticks() {
#if defined(__x86_64__)
  return __rdtsc();
#else
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
}

/// How many of a thing to let pass until the next one is looked at, where all of them would cost too much: none of the first few, then
/// four to eleven, in no order that a program's own could match.
inline std::uint32_t distance(std::uint32_t taken, std::uint32_t exact) { return taken <= exact ? 0 : 4 + (taken * 0x9E3779B9u >> 29); }

/// Which runs of one piece of code are timed: all that take long; of those that looking at the clock would make longer, the first
/// few and then one in eight, at no fixed distance.
class Sampler {
 public:
  bool takes() {
    if (left_ == 0) return true;
    --left_;
    return false;
  }
  /// How long the run was that it took.
  void took(std::uint64_t ticks) { left_ = ticks >= kLong ? 0 : distance(++taken_, kFirst); }

 private:
  static constexpr std::uint64_t kLong = 50'000;
  static constexpr std::uint32_t kFirst = 16;
  std::uint32_t left_ = 0, taken_ = 0;
};

/// Turns ticks into microseconds, by the time since it was made.
class Clock {
 public:
  double microseconds(std::uint64_t count) const {
    const double passed = seconds();
    const auto counted = static_cast<double>(ticks() - start_);
    return counted > 0 ? static_cast<double>(count) * passed * 1e6 / counted : 0.0;
  }
  /// Since it was made.
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - began_).count(); }

 private:
  std::uint64_t start_ = ticks();
  std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
};

}  // namespace dynrun::report
