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
