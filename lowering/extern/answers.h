#pragma once
// What was measured of one question, at several sizes, and what it says of others.

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace dynrun::lowering {

using Sizes = std::vector<std::int64_t>;

struct Answer {
  std::size_t best = 0;         // which candidate
  std::vector<double> times;    // of each, infinity where it cannot be; empty where it was not measured, for want of time
  std::string line;             // for people
};

class Answers {
 public:
  struct Guess {
    std::size_t best = 0;
    bool is_near = false;     // it was measured at sizes within a factor of four
    bool is_settled = false;  // it is the best, or next to it, wherever it was measured nearby
  };

  const Answer* at(const Sizes& sizes) const;
  void note(const Sizes& sizes, Answer answer) { answers_.insert_or_assign(sizes, std::move(answer)); }
  /// From sizes that are the most alike. `possible`: of each candidate, whether it may be chosen.
  std::optional<Guess> guess(const Sizes& sizes, const std::vector<bool>& possible) const;
  const std::map<Sizes, Answer>& all() const { return answers_; }

 private:
  std::vector<std::pair<double, const Answer*>> nearest(const Sizes& sizes, std::size_t most) const;

  std::map<Sizes, Answer> answers_;
};

}  // namespace dynrun::lowering
