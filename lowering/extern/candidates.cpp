#include "lowering/extern/candidates.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <mutex>

namespace dynrun::lowering {
namespace {

using Clock = std::chrono::steady_clock;

struct Measured {
  std::size_t best = 0;
  std::string line;
};

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}

std::map<std::string, Measured>& memory() {
  static std::map<std::string, Measured> instance;
  return instance;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The best of a few runs after one that warms up (oneDNN generates its code in the first).
double measure(const Candidate& candidate) {
  constexpr double kBudgetMilliseconds = 1.5;
  constexpr int kLeastRuns = 2, kMostRuns = 12;
  try {
    candidate.run();
    double best = std::numeric_limits<double>::infinity();
    const auto start = Clock::now();
    for (int runs = 0; runs < kMostRuns && (runs < kLeastRuns || milliseconds_since(start) < kBudgetMilliseconds); ++runs) {
      const auto before = Clock::now();
      candidate.run();
      best = std::min(best, milliseconds_since(before));
    }
    return best;
  } catch (const std::exception&) {
    return std::numeric_limits<double>::infinity();
  }
}

}  // namespace

std::size_t fastest(const std::string& key, const std::vector<Candidate>& candidates) {
  const std::string full_key = fmt::format("{} [{} threads]", key, at::get_num_threads());
  {
    std::lock_guard lock(mutex());
    auto found = memory().find(full_key);
    if (found != memory().end()) return found->second.best;
  }
  constexpr double kWorthwhile = 0.97;
  Measured measured;
  measured.line = full_key + ":";
  double best = std::numeric_limits<double>::infinity();
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    const double time = measure(candidates[index]);
    measured.line += fmt::format("{} {} {:.3f} ms", index ? "," : "", candidates[index].name, time);
    if (time < best * (measured.best == 0 ? kWorthwhile : 1.0)) {
      best = time;
      measured.best = index;
    }
  }
  std::lock_guard lock(mutex());
  return memory().emplace(full_key, measured).first->second.best;
}

std::vector<std::string> measurements() {
  std::lock_guard lock(mutex());
  std::vector<std::string> lines;
  for (const auto& [key, measured] : memory()) lines.push_back(measured.line);
  return lines;
}

}  // namespace dynrun::lowering
