#include "trace/plan_pace.h"

namespace dynrun::trace {

void PlanPace::note_run(const SmallSizes& small, double seconds) {
  runs_++;
  run_ = seconds;
  seen_.insert(small);
}

bool PlanPace::is_known(const SmallSizes& small) const {
  constexpr int kRunsBefore = 2;
  return runs_ >= kRunsBefore && seen_.count(small) != 0;
}

bool PlanPace::pays_at_once() {
  constexpr double kLongRun = 5e-3;    // seconds; worth a first try
  constexpr double kWorth = 4;         // what is won in one run is a part of it
  constexpr double kForgotten = 0.75;  // one lowering that took long says little of the next
  const bool pays = lowering_ == 0 ? run_ >= kLongRun : run_ >= kWorth * lowering_;
  if (!pays) lowering_ *= kForgotten;
  return pays;
}

}  // namespace dynrun::trace
