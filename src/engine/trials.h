#pragma once
// Whether it pays to run a function here: where it breaks, or little of it is in segments, its calls are timed in each of three ways, in
// turn, and it runs in the fastest from then on.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace dynrun::engine {

enum class Way : std::uint8_t {
  kHere,   // in the VM, with its segments
  kLeft,   // CPython runs the function; what it calls is recorded as ever
  kPlain,  // CPython runs it and all that it calls
};

constexpr std::uint64_t kFewOperators = 16;  // of a call, or a turn of a loop
constexpr double kWorthATrial = 5e4;        // microseconds that have gone into it
constexpr double kLongest = 2e4;            // microseconds: in longer calls and turns a break is little
constexpr double kFaster = 0.92;            // of the time, if what it is now is to be given up

/// Of the faster half of the times behind the first `warm_up`.
double typical(const std::vector<std::uint64_t>& times, std::size_t warm_up);

class Trials {
 public:
  /// One call that is timed.
  struct Call {
    std::size_t key;  // of the function: Engine::trial_key
    Way way;
    std::uint64_t recordings;  // that had been made when it began
    bool settled = false;      // it is no trial
  };

  /// The function breaks, or holds few operators. False: that was known.
  bool suspect(std::size_t key);
  /// Whether `next` may have something to say.
  bool any() const { return counted_ > 0; }
  /// How the next call of the function is to run, if that is not as ever.
  std::optional<Call> next(std::size_t key, std::uint64_t recordings);
  /// What the call took (report/clock.h). A way: the function has been tried, and this one is to be its own. `recordings`: that have been
  /// made by now.
  std::optional<Way> note(const Call& call, std::uint64_t ticks, std::uint64_t recordings, double microseconds_a_tick);
  /// Whether its calls are timed.
  bool tries(std::size_t key) const;
  bool is_plain(std::size_t key) const;
  void forget();
  /// Of the function that was settled last, in ticks: what a call took here, and in its new way.
  double took_here() const { return took_here_; }
  double took() const { return took_; }

 private:
  struct Trial {
    enum class Stage : std::uint8_t { kWaits, kTurns, kPlain, kOver } stage = Stage::kWaits;
    int calls = 0;            // since the stage began
    std::uint64_t spent = 0;  // in them, ticks
    double wait = kWorthATrial;
    std::array<std::vector<std::uint64_t>, 3> times;
  };
  Way settle(Trial& trial);

  std::unordered_map<std::size_t, Trial> trials_;
  double took_here_ = 0, took_ = 0;
  int counted_ = 0;  // that are not over
};

}  // namespace dynrun::engine
