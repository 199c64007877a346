#pragma once
// When a choice of sizes is worth compiled code: at first sight, or only when it has come back.

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace dynrun::trace {

/// Numbers in a choice of sizes that are one or less, with their places: tensors may lie differently there.
using SmallSizes = std::set<std::pair<std::size_t, std::int64_t>>;

/// Of one segment for many sizes.
class PlanPace {
 public:
  /// Operators, one by one, gave what was expected of them at these sizes, in so many seconds.
  void note_run(const SmallSizes& small, double seconds);
  /// Code was made in haste, in so many seconds.
  void note_lowering(double seconds) { lowering_ = seconds; }
  /// Whether sizes like these were seen to give what was expected.
  bool is_known(const SmallSizes& small) const;
  /// Whether code for sizes that are new is made before their first run.
  bool pays_at_once();

 private:
  int runs_ = 0;
  double run_ = 0, lowering_ = 0;  // seconds, of the last one
  std::set<SmallSizes> seen_;
};

}  // namespace dynrun::trace
