#include "lowering/extern/candidates.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <dlfcn.h>
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <ctime>
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

auto openmp_setter() -> void (*)(int) {
  static const auto function = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
  return function;
}

auto mkl_setter() -> int (*)(int) {
  static const auto function = reinterpret_cast<int (*)(int)>(dlsym(RTLD_DEFAULT, "MKL_Set_Num_Threads_Local"));
  return function;
}

constexpr double kLoweringBudgetMilliseconds = 300;

/// By this thread since start_measuring_budget.
double& spent_measuring() {
  thread_local double milliseconds = 0;
  return milliseconds;
}

/// Whether this thread lowers for one of many sizes.
bool& measures_roughly() {
  thread_local bool roughly = false;
  return roughly;
}

/// Milliseconds that this thread has computed: what other programs took from it does not count.
double own_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

/// Times one call on the one thread that it has; infinity when it throws.
double time_run(const Candidate& candidate) {
  try {
    // The heap grows in the first runs: those that wait for the system's pages say nothing of later ones.
    constexpr int kMostTries = 5;
    constexpr long kFewFaults = 16;
    double best = std::numeric_limits<double>::infinity();
    for (int tries = 0; tries < kMostTries; ++tries) {
      const long faults = page_faults();
      const double start = own_milliseconds();
      candidate.run();
      best = std::min(best, own_milliseconds() - start);
      if (page_faults() - faults <= kFewFaults) break;
    }
    return best;
  } catch (const std::exception&) {
    return std::numeric_limits<double>::infinity();
  }
}

/// The best of a few runs of each, in turns so that a busy moment of the machine strikes all alike. The first run of each warms
/// up (oneDNN generates its code there) and does not count. Ends early when the order is plain.
struct Times {
  std::vector<double> best;
  int rounds = 0;
};

Times measure(const std::vector<Candidate>& candidates) {
  constexpr double kBudgetMilliseconds = 4, kMostMilliseconds = 40, kPlain = 1.4, kVeryPlain = 2.5;
  constexpr int kMostRounds = 12;
  // Past its budget, a model's lowering measures small kernels in haste and takes the likely candidate of large ones.
  const bool thrifty = spent_measuring() > kLoweringBudgetMilliseconds;
  constexpr double kLarge = 4;
  const OneThread one_thread;
  Times times{std::vector<double>(candidates.size(), std::numeric_limits<double>::infinity())};
  std::vector<double>& best = times.best;
  std::vector<bool> works;
  const auto begin = Clock::now();
  for (const Candidate& candidate : candidates) {
    works.push_back(std::isfinite(time_run(candidate)));
    if (thrifty && works[0] && milliseconds_since(begin) > kLarge) {
      best[0] = 0;
      return times;
    }
  }
  const auto start = Clock::now();
  for (int round = 0; round < kMostRounds; ++round) {
    for (std::size_t index = 0; index < candidates.size(); ++index) {
      if (works[index]) best[index] = std::min(best[index], candidates[index].handicap * time_run(candidates[index]));
    }
    ++times.rounds;
    std::vector<double> sorted = best;
    std::sort(sorted.begin(), sorted.end());
    // The first candidate is the likely one: that it loses takes more to believe.
    const bool expected = best[0] == sorted[0];
    const bool plain = sorted.size() < 2 || sorted[1] > kPlain * sorted[0];
    const bool very_plain = sorted.size() < 2 || sorted[1] > kVeryPlain * sorted[0];
    const int least_rounds = thrifty || very_plain ? 1 : !expected ? 5 : plain ? 2 : 3;
    const double spent = milliseconds_since(start);
    if (spent > kMostMilliseconds || (round + 1 >= least_rounds && (plain || thrifty || spent > kBudgetMilliseconds))) break;
  }
  spent_measuring() += milliseconds_since(begin);
  return times;
}

}  // namespace

OneThread::OneThread() {
  if (openmp_setter() == nullptr || mkl_setter() == nullptr) return;
  openmp_threads_ = at::get_num_threads();
  openmp_setter()(1);
  mkl_threads_ = mkl_setter()(1);
}

OneThread::~OneThread() {
  if (openmp_threads_ == 0) return;
  openmp_setter()(openmp_threads_);
  mkl_setter()(mkl_threads_);
}

void start_measuring_budget(bool many_sizes) {
  spent_measuring() = 0;
  measures_roughly() = many_sizes;
}

std::int64_t measured_size(std::int64_t size) {
  constexpr std::int64_t kExact = 8;
  return measures_roughly() && size > kExact ? static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size))) : size;
}

std::vector<std::int64_t> measured_sizes(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> out;
  std::transform(sizes.begin(), sizes.end(), std::back_inserter(out), measured_size);
  return out;
}

std::size_t fastest(const std::string& key, const std::vector<Candidate>& candidates) {
  if (preference().active) return preferred(candidates);
  const std::string full_key = fmt::format("{} [{} threads]", key, at::get_num_threads());
  {
    std::lock_guard lock(mutex());
    auto found = memory().find(full_key);
    if (found != memory().end()) return found->second.best;
  }
  Measured measured;
  measured.line = full_key + ":";
  const Times times = measure(candidates);
  // The fewer the rounds, the more another candidate must win by.
  const double worthwhile = times.rounds >= 5 ? 0.92 : times.rounds >= 2 ? 0.75 : 0.5;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    measured.line += fmt::format("{} {} {:.3f} ms", index ? "," : "", candidates[index].name, times.best[index]);
    if (times.best[index] < times.best[measured.best] * (measured.best == 0 ? worthwhile : 1.0)) measured.best = index;
  }
  std::lock_guard lock(mutex());
  return memory().emplace(full_key, measured).first->second.best;
}

void return_free_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

void keep_freed_memory() {
#if defined(__GLIBC__)
  static const bool done = [] {
    constexpr int kLargestHeapBlock = 32 << 20, kKept = 128 << 20;
    return mallopt(M_MMAP_THRESHOLD, kLargestHeapBlock) != 0 && mallopt(M_TRIM_THRESHOLD, kKept) != 0;
  }();
  static_cast<void>(done);
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
