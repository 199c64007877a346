#include "trace/plan_pace.h"

#include <catch2/catch.hpp>

namespace dynrun::trace {

TEST_CASE("code for new sizes is made at once where a run takes much longer", "[plan_pace]") {
  PlanPace pace;
  pace.note_run({}, 0.1);
  CHECK_FALSE(pace.is_known({}));
  pace.note_run({}, 0.1);
  CHECK(pace.is_known({}));
  CHECK(pace.pays_at_once());  // worth a try
  pace.note_lowering(0.01);
  CHECK(pace.pays_at_once());
  pace.note_lowering(0.03);
  CHECK_FALSE(pace.pays_at_once());
  CHECK(pace.pays_at_once());  // that one was slow says little of the next
}

TEST_CASE("short runs are not worth code at first sight", "[plan_pace]") {
  PlanPace pace;
  for (int i = 0; i < 3; i++) pace.note_run({}, 1e-4);
  CHECK_FALSE(pace.pays_at_once());
}

TEST_CASE("sizes of one are known when they were seen in that place", "[plan_pace]") {
  PlanPace pace;
  pace.note_run({}, 0.1);
  pace.note_run({{2, 1}}, 0.1);
  CHECK(pace.is_known({{2, 1}}));
  CHECK_FALSE(pace.is_known({{1, 1}}));
  CHECK_FALSE(pace.is_known({{2, 0}}));
}

}  // namespace dynrun::trace
