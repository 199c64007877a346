#include "lowering/extern/answers.h"

#include <catch2/catch.hpp>

#include <limits>

namespace dynrun::lowering {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("nothing measured says nothing", "[answers]") {
  Answers answers;
  CHECK_FALSE(answers.guess({64}, {true, true}));
  answers.note({64}, {1, {}, ""});  // taken for want of time
  CHECK_FALSE(answers.guess({64}, {true, true}));
  CHECK(answers.at({64})->best == 1);
}

TEST_CASE("what is next to the best at all sizes nearby is settled", "[answers]") {
  Answers answers;
  answers.note({64}, {0, {1.0, 1.05, 3.0}, ""});
  auto guess = answers.guess({96}, {true, true, true});
  CHECK(guess->best == 0);
  CHECK(guess->is_near);
  CHECK_FALSE(guess->is_settled);  // seen once only
  answers.note({128}, {1, {2.5, 2.0, 6.0}, ""});
  guess = answers.guess({96}, {true, true, true});
  CHECK(guess->best == 1);
  CHECK(guess->is_settled);
}

TEST_CASE("what was measured far away is a guess", "[answers]") {
  Answers answers;
  answers.note({8, 64}, {0, {1.0, 2.0}, ""});
  answers.note({16, 64}, {0, {1.0, 2.0}, ""});
  const auto guess = answers.guess({4096, 64}, {true, true});
  CHECK(guess->best == 0);
  CHECK_FALSE(guess->is_near);
  CHECK_FALSE(guess->is_settled);
}

TEST_CASE("what is not possible is not guessed", "[answers]") {
  Answers answers;
  answers.note({64}, {0, {1.0, kNever, 2.0}, ""});
  CHECK(answers.guess({65}, {false, true, true})->best == 2);
  CHECK_FALSE(answers.guess({65}, {false, true, false}));
}

}  // namespace dynrun::lowering
