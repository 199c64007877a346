#include "lowering/extern/candidates.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <dlfcn.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cmath>
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

struct Preference {
  bool active = false;
  std::string name;
};

Preference& preference() {
  static Preference instance;
  return instance;
}

std::size_t preferred(const std::vector<Candidate>& candidates) {
  std::size_t library = candidates.size();
  for (std::size_t index = candidates.size(); index-- > 0;) {
    if (candidates[index].name == preference().name) return index;
    if (candidates[index].name != "libtorch") library = index;
  }
  return library == candidates.size() ? 0 : library;
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// While one lives, OpenMP and MKL use one thread for what this thread calls: two threads that wait for each other measure how
/// busy the machine is, one measures the kernel. Nothing is changed where the libraries do not offer that.
class OneThread {
 public:
  OneThread() {
    if (set_openmp() == nullptr || set_mkl() == nullptr) return;
    openmp_threads_ = at::get_num_threads();
    set_openmp()(1);
    mkl_threads_ = set_mkl()(1);
  }
  ~OneThread() {
    if (openmp_threads_ == 0) return;
    set_openmp()(openmp_threads_);
    set_mkl()(mkl_threads_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  static auto set_openmp() -> void (*)(int) {
    static const auto function = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    return function;
  }
  static auto set_mkl() -> int (*)(int) {
    static const auto function = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
    return function;
  }

  int openmp_threads_ = 0, mkl_threads_ = 0;
};

/// Times one call; infinity when it throws.
double time_run(const Candidate& candidate) {
  try {
    const auto start = Clock::now();
    candidate.run();
    return milliseconds_since(start);
  } catch (const std::exception&) {
    return std::numeric_limits<double>::infinity();
  }
}

/// The best of a few runs of each, in turns so that a busy moment of the machine strikes all alike. The first run of each warms
/// up (oneDNN generates its code there) and does not count. Ends early when the order is plain.
std::vector<double> measure(const std::vector<Candidate>& candidates) {
  constexpr double kBudgetMilliseconds = 4, kMostMilliseconds = 40, kPlain = 1.4;
  constexpr int kMostRounds = 12;
  const OneThread one_thread;
  std::vector<double> best(candidates.size(), std::numeric_limits<double>::infinity());
  std::vector<bool> works;
  for (const Candidate& candidate : candidates) works.push_back(std::isfinite(time_run(candidate)));
  const auto start = Clock::now();
  for (int round = 0; round < kMostRounds; ++round) {
    for (std::size_t index = 0; index < candidates.size(); ++index) {
      if (works[index]) best[index] = std::min(best[index], candidates[index].handicap * time_run(candidates[index]));
    }
    std::vector<double> sorted = best;
    std::sort(sorted.begin(), sorted.end());
    // The first candidate is the likely one: that it loses takes more to believe.
    const bool expected = best[0] == sorted[0];
    const bool plain = sorted.size() < 2 || sorted[1] > kPlain * sorted[0];
    const int least_rounds = !expected ? 5 : plain ? 2 : 3;
    const double spent = milliseconds_since(start);
    if (spent > kMostMilliseconds || (round + 1 >= least_rounds && (plain || spent > kBudgetMilliseconds))) break;
  }
  return best;
}

}  // namespace

std::size_t fastest(const std::string& key, const std::vector<Candidate>& candidates) {
  if (preference().active) return preferred(candidates);
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

void return_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

PreferLibrary::PreferLibrary(std::string name) {
  preference() = {true, std::move(name)};
}
PreferLibrary::~PreferLibrary() {
  preference() = {};
}

std::vector<std::string> measurements() {
  std::lock_guard lock(mutex());
  std::vector<std::string> lines;
  for (const auto& [key, measured] : memory()) lines.push_back(measured.line);
  return lines;
}

}  // namespace dynrun::lowering
