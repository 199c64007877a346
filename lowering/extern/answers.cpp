#include "lowering/extern/answers.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dynrun::lowering {
namespace {

/// By how much two choices of sizes differ, in powers of two: where they differ the most, and a little by how much they differ in all.
double distance(const Sizes& a, const Sizes& b) {
  constexpr double kLittle = 1e-3;
  double largest = 0, whole = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double ratio = std::log2(static_cast<double>(std::max<std::int64_t>(a[i], 1)) / static_cast<double>(std::max<std::int64_t>(b[i], 1)));
    largest = std::max(largest, std::fabs(ratio));
    whole += ratio;
  }
  return largest + kLittle * std::fabs(whole);
}

/// How many times the best one's time a candidate takes.
double slowness(const Answer& answer, std::size_t candidate) {
  return answer.times[candidate] / *std::min_element(answer.times.begin(), answer.times.end());
}

}  // namespace

const Answer* Answers::at(const Sizes& sizes) const {
  const auto found = answers_.find(sizes);
  return found == answers_.end() ? nullptr : &found->second;
}

std::vector<std::pair<double, const Answer*>> Answers::nearest(const Sizes& sizes, std::size_t most) const {
  std::vector<std::pair<double, const Answer*>> near;
  for (const auto& [there, answer] : answers_) {
    if (!answer.times.empty()) near.emplace_back(distance(there, sizes), &answer);
  }
  std::sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (near.size() > most) near.resize(most);
  return near;
}

std::optional<Answers::Guess> Answers::guess(const Sizes& sizes, const std::vector<bool>& possible) const {
  constexpr std::size_t kMost = 3, kEnough = 2;
  constexpr double kNearby = 2.1, kNextToBest = 1.1;
  auto near = nearest(sizes, kMost);
  if (near.empty()) return std::nullopt;
  const bool is_near = near[0].first <= kNearby;
  std::erase_if(near, [&, farthest = std::max(kNearby, near[0].first)](const auto& one) { return one.first > farthest; });
  Guess guess;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t candidate = 0; candidate < possible.size(); ++candidate) {
    if (!possible[candidate]) continue;
    double worst = 0;
    for (const auto& [far, answer] : near) worst = std::max(worst, slowness(*answer, candidate));
    if (worst < least) least = worst, guess.best = candidate;
  }
  if (!std::isfinite(least)) return std::nullopt;
  guess.is_near = is_near;
  guess.is_settled = is_near && near.size() >= kEnough && least <= kNextToBest;
  return guess;
}

}  // namespace dynrun::lowering
