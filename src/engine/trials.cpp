#include "engine/trials.h"

#include <algorithm>
#include <numeric>

namespace dynrun::engine {

namespace {

constexpr int kCallsBefore = 24;        // a multiple of kLookedEvery
constexpr int kLookedEvery = 8;
constexpr std::size_t kWarmUp = 8;      // calls: what a function that CPython runs calls may have to be recorded
constexpr std::size_t kTimed = 16;      // calls of each way
constexpr int kMostCalls = 3 * 10 * static_cast<int>(kWarmUp + kTimed);
constexpr double kWaitGrows = 40;
constexpr std::size_t kMostFunctions = 4096;

}  // namespace

double typical(const std::vector<std::uint64_t>& times, std::size_t warm_up) {
  std::vector<std::uint64_t> counted(times.begin() + static_cast<std::ptrdiff_t>(warm_up), times.end());
  const auto half = static_cast<std::ptrdiff_t>((counted.size() + 1) / 2);
  std::nth_element(counted.begin(), counted.begin() + half - 1, counted.end());
  return static_cast<double>(std::accumulate(counted.begin(), counted.begin() + half, std::uint64_t{0})) / static_cast<double>(half);
}

bool Trials::suspect(std::size_t key) {
  if (trials_.size() >= kMostFunctions) forget();  // a program makes them without end
  const bool is_new = trials_.try_emplace(key).second;
  counted_ += is_new;
  return is_new;
}

bool Trials::tries(std::size_t key) const {
  auto found = trials_.find(key);
  return found != trials_.end() && found->second.stage != Trial::Stage::kOver;
}

bool Trials::is_plain(std::size_t key) const {
  auto found = trials_.find(key);
  return found != trials_.end() && found->second.stage == Trial::Stage::kPlain;
}

void Trials::forget() {
  trials_.clear();
  counted_ = 0;
}

std::optional<Trials::Call> Trials::next(std::size_t key, std::uint64_t recordings) {
  auto found = trials_.find(key);
  if (found == trials_.end() || found->second.stage == Trial::Stage::kOver) return std::nullopt;
  Trial& trial = found->second;
  if (trial.stage == Trial::Stage::kPlain) return Call{key, Way::kPlain, recordings, true};
  if (trial.stage == Trial::Stage::kTurns && trial.calls > kMostCalls) {  // most of them raise: those say nothing
    trial.stage = Trial::Stage::kOver;
    counted_--;
    return std::nullopt;
  }
  return Call{key, trial.stage == Trial::Stage::kTurns ? static_cast<Way>(trial.calls++ % 3) : Way::kHere, recordings, false};
}

std::optional<Way> Trials::note(const Call& call, std::uint64_t ticks, std::uint64_t recordings, double microseconds_a_tick) {
  auto found = trials_.find(call.key);
  if (found == trials_.end()) return std::nullopt;
  Trial& trial = found->second;
  if (trial.stage == Trial::Stage::kTurns) {
    trial.times[static_cast<std::size_t>(call.way)].push_back(ticks);
    const bool done = std::all_of(trial.times.begin(), trial.times.end(), [](const auto& times) { return times.size() >= kWarmUp + kTimed; });
    return done ? std::optional(settle(trial)) : std::nullopt;
  }
  if (trial.stage == Trial::Stage::kOver || (trial.stage == Trial::Stage::kWaits && call.recordings != recordings)) return std::nullopt;
  trial.spent += ticks;
  if (++trial.calls < kCallsBefore || trial.calls % kLookedEvery != 0) return std::nullopt;
  const double spent = static_cast<double>(trial.spent) * microseconds_a_tick;
  if (spent < trial.wait) return std::nullopt;
  if (spent / trial.calls > kLongest) trial.stage = Trial::Stage::kOver, counted_--;
  else trial.stage = Trial::Stage::kTurns, trial.calls = 0;
  return std::nullopt;
}

/// It is looked at again when much more time has gone into it: by then it may do something else.
Way Trials::settle(Trial& trial) {
  std::array<double, 3> took{};
  std::transform(trial.times.begin(), trial.times.end(), took.begin(), [](const auto& times) { return typical(times, kWarmUp); });
  const auto [here, left, plain] = took;
  const Way best = std::min(left, plain) > kFaster * here ? Way::kHere : plain < left ? Way::kPlain : Way::kLeft;
  took_here_ = here;
  took_ = took[static_cast<std::size_t>(best)];
  for (auto& times : trial.times) times.clear();
  trial.calls = 0;
  trial.spent = 0;
  trial.wait *= kWaitGrows;
  trial.stage = best == Way::kPlain ? Trial::Stage::kPlain : best == Way::kLeft ? Trial::Stage::kOver : Trial::Stage::kWaits;
  if (trial.stage == Trial::Stage::kOver) counted_--;
  return best;
}

}  // namespace dynrun::engine
