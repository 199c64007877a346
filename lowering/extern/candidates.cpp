#include "lowering/extern/candidates.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
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

std::atomic<int>& library_is_preferred() {
  static std::atomic<int> instance{0};
  return instance;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The best of a few runs of each, in turns so that a busy moment of the machine strikes all alike. The first run of each warms
/// up (oneDNN generates its code there).
std::vector<double> measure(const std::vector<Candidate>& candidates) {
  constexpr double kBudgetMilliseconds = 4;
  constexpr int kLeastRounds = 2, kMostRounds = 12;
  constexpr double kNever = std::numeric_limits<double>::infinity();
  std::vector<double> best(candidates.size(), kNever);
  std::vector<bool> works(candidates.size(), true);
  auto run = [&](std::size_t index) {
    try {
      candidates[index].run();
    } catch (const std::exception&) {
      works[index] = false;
      best[index] = kNever;
    }
  };
  for (std::size_t index = 0; index < candidates.size(); ++index) run(index);
  const auto start = Clock::now();
  for (int round = 0; round < kMostRounds && (round < kLeastRounds || milliseconds_since(start) < kBudgetMilliseconds); ++round) {
    for (std::size_t index = 0; index < candidates.size(); ++index) {
      if (!works[index]) continue;
      const auto before = Clock::now();
      run(index);
      if (works[index]) best[index] = std::min(best[index], milliseconds_since(before));
    }
  }
  return best;
}

}  // namespace

std::size_t fastest(const std::string& key, const std::vector<Candidate>& candidates) {
  if (library_is_preferred()) {
    for (std::size_t index = 0; index < candidates.size(); ++index) {
      if (candidates[index].name != "libtorch") return index;
    }
  }
  const std::string full_key = fmt::format("{} [{} threads]", key, at::get_num_threads());
  {
    std::lock_guard lock(mutex());
    auto found = memory().find(full_key);
    if (found != memory().end()) return found->second.best;
  }
  constexpr double kWorthwhile = 0.92;
  Measured measured;
  measured.line = full_key + ":";
  const std::vector<double> times = measure(candidates);
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    measured.line += fmt::format("{} {} {:.3f} ms", index ? "," : "", candidates[index].name, times[index]);
    if (times[index] < times[measured.best] * (measured.best == 0 ? kWorthwhile : 1.0)) measured.best = index;
  }
  std::lock_guard lock(mutex());
  return memory().emplace(full_key, measured).first->second.best;
}

PreferLibrary::PreferLibrary() { ++library_is_preferred(); }
PreferLibrary::~PreferLibrary() { --library_is_preferred(); }

std::vector<std::string> measurements() {
  std::lock_guard lock(mutex());
  std::vector<std::string> lines;
  for (const auto& [key, measured] : memory()) lines.push_back(measured.line);
  return lines;
}

}  // namespace dynrun::lowering
