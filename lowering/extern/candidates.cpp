#include "lowering/extern/candidates.h"

#include "lowering/extern/answers.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

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
#include <numeric>
#include <optional>
#include <utility>

namespace dynrun::lowering {
namespace {

using Clock = std::chrono::steady_clock;

std::mutex& mutex() {
  static std::mutex instance;
  return instance;
}

/// By what was asked and the number of threads.
std::map<std::string, Answers>& memory() {
  static std::map<std::string, Answers> instance;
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
    if (!candidates[index].possible) continue;
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

constexpr double kLoweringBudgetMilliseconds = 300, kLongRun = 30;

/// By this thread since start_measuring.
double& spent_measuring() {
  thread_local double milliseconds = 0;
  return milliseconds;
}

/// Of this thread's lowering.
Measuring& measuring() {
  thread_local Measuring how = Measuring::kExactly;
  return how;
}

bool& guessed() {
  thread_local bool any = false;
  return any;
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
  if (!candidate.possible) return std::numeric_limits<double>::infinity();
  try {
    // The heap grows in the first runs: those that wait for the system's pages say nothing of later ones.
    constexpr int kMostTries = 5;
    constexpr long kFewFaults = 16;
    constexpr double kLong = 10;
    double best = std::numeric_limits<double>::infinity();
    for (int tries = 0; tries < kMostTries; ++tries) {
      const long faults = page_faults();
      const double start = own_milliseconds();
      candidate.run();
      best = std::min(best, own_milliseconds() - start);
      if (page_faults() - faults <= kFewFaults || best > kLong) break;
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
  bool is_likely = false;  // the first candidate was taken
};

Times measure(const std::vector<Candidate>& candidates) {
  constexpr double kBudgetMilliseconds = 4, kMostMilliseconds = 40, kPlain = 1.4, kVeryPlain = 2.5, kHopeless = 1.6;
  constexpr int kMostRounds = 12;
  // Past its budget, a model's lowering measures small kernels in haste and takes the likely candidate of large ones.
  const bool thrifty = spent_measuring() > kLoweringBudgetMilliseconds;
  constexpr double kLarge = 4;
  const OneThread one_thread;
  Times times{std::vector<double>(candidates.size(), std::numeric_limits<double>::infinity())};
  std::vector<double>& best = times.best;
  std::vector<double> first;
  const auto begin = Clock::now();
  for (const Candidate& candidate : candidates) {
    first.push_back(time_run(candidate));
    if (thrifty && std::isfinite(first[0]) && milliseconds_since(begin) > kLarge) {
      best[0] = 0;
      times.is_likely = true;
      return times;
    }
  }
  const double least = *std::min_element(first.begin(), first.end());
  if (least > kLongRun) {  // what warming up adds is little
    for (std::size_t index = 0; index < candidates.size(); ++index) best[index] = candidates[index].handicap * first[index];
    times.rounds = 1;
    spent_measuring() += milliseconds_since(begin);
    return times;
  }
  auto is_hopeless = [&](std::size_t index) { return !std::isfinite(first[index]) || best[index] > kHopeless * *std::min_element(best.begin(), best.end()); };
  const auto start = Clock::now();
  for (int round = 0; round < kMostRounds; ++round) {
    for (std::size_t index = 0; index < candidates.size(); ++index) {
      if (round == 0 ? std::isfinite(first[index]) : !is_hopeless(index)) best[index] = std::min(best[index], candidates[index].handicap * time_run(candidates[index]));
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

void start_measuring(Measuring how) {
  spent_measuring() = 0;
  measuring() = how;
  guessed() = false;
}

bool has_guessed() { return guessed(); }

std::string layout_text(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides) {
  if (measuring() == Measuring::kExactly) return fmt::format("{}", fmt::join(strides, ","));
  std::vector<std::size_t> order(strides.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return strides[a] > strides[b]; });
  std::string text;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool is_last = i + 1 == order.size();
    const std::int64_t dense = is_last ? 1 : strides[order[i + 1]] * sizes[order[i + 1]];
    text += fmt::format("{}{}", order[i], strides[order[i]] == 0 ? "=" : strides[order[i]] == dense ? "" : "+");
  }
  return text;
}

namespace {

/// The next power of two, or three quarters of it.
std::int64_t rough_size(std::int64_t size) {
  constexpr std::int64_t kExact = 8;
  if (size <= kExact) return size;
  const auto power = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(size)));
  return size <= power / 4 * 3 ? power / 4 * 3 : power;
}

/// The part of the first candidate's time that another one may take to be preferred: the fewer the rounds the less, but little disturbs long runs.
double margin(const Times& times) {
  constexpr double kLong = 2;  // milliseconds
  if (times.rounds >= 5) return 0.92;
  const bool is_long = *std::min_element(times.best.begin(), times.best.end()) >= kLong;
  return times.rounds >= 2 ? (is_long ? 0.92 : 0.75) : (is_long ? 0.8 : 0.5);
}

Sizes asked_sizes(const Sizes& sizes) {
  if (measuring() == Measuring::kExactly) return sizes;
  Sizes rough;
  std::transform(sizes.begin(), sizes.end(), std::back_inserter(rough), rough_size);
  return rough;
}

std::vector<bool> possible(const std::vector<Candidate>& candidates) {
  std::vector<bool> can;
  for (const Candidate& candidate : candidates) can.push_back(candidate.possible);
  return can;
}

/// Whether a guess stands for an answer: it is settled, or there is no time to measure.
bool is_taken(const Answers::Guess& guess) {
  constexpr double kRoughBudgetMilliseconds = 100;
  const bool in_haste = measuring() == Measuring::kGuessing || spent_measuring() > kRoughBudgetMilliseconds;
  guessed() = guessed() || (in_haste && !guess.is_settled);
  return guess.is_settled || in_haste;
}

/// The candidate that was the best nearby, where already that one takes so long that measuring all would be felt.
std::optional<Answer> answer_of_long_runs(const Candidate& candidate, std::size_t index) {
  const OneThread one_thread;
  const auto begin = Clock::now();
  const double time = time_run(candidate);
  spent_measuring() += milliseconds_since(begin);
  if (time < kLongRun) return std::nullopt;
  return Answer{index, {}, fmt::format(" {} {:.3f} ms, as nearby", candidate.name, time)};
}

Answer measured_answer(const std::vector<Candidate>& candidates) {
  const Times times = measure(candidates);
  const double worthwhile = margin(times);
  Answer answer;
  if (!times.is_likely) answer.times = times.best;
  for (std::size_t index = 0; index < candidates.size(); ++index) {
    answer.line += fmt::format("{} {} {:.3f} ms", index ? "," : "", candidates[index].name, times.best[index]);
    if (times.best[index] < times.best[answer.best] * (answer.best == 0 ? worthwhile : 1.0)) answer.best = index;
  }
  return answer;
}

}  // namespace

std::size_t fastest(const Question& question, const std::vector<Candidate>& candidates) {
  if (preference().active) return preferred(candidates);
  const std::string key = fmt::format("{} [{} threads]", question.what, at::get_num_threads());
  const Sizes sizes = asked_sizes(question.sizes);
  std::optional<Answers::Guess> guess;
  {
    std::lock_guard lock(mutex());
    const Answers& seen = memory()[key];
    const Answer* same = seen.at(sizes);
    if (same != nullptr && candidates[same->best].possible) return same->best;
    if (measuring() != Measuring::kExactly) guess = seen.guess(sizes, possible(candidates));
  }
  if (guess && is_taken(*guess)) return guess->best;
  std::optional<Answer> likely;
  if (guess && guess->is_near) likely = answer_of_long_runs(candidates[guess->best], guess->best);
  const Answer answer = likely ? *likely : measured_answer(candidates);
  std::lock_guard lock(mutex());
  memory()[key].note(sizes, answer);
  return answer.best;
}

void return_free_memory() {
  if (measuring() != Measuring::kExactly) return;  // the next lowering, for other sizes, needs it again
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
  for (const auto& [key, answers] : memory()) {
    for (const auto& [sizes, answer] : answers.all()) lines.push_back(fmt::format("{} at {}:{}", key, fmt::join(sizes, "x"), answer.line));
  }
  return lines;
}

}  // namespace dynrun::lowering
