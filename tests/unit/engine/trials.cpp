#include "engine/trials.h"

#include <catch2/catch.hpp>

#include <array>

using dynrun::engine::Trials;
using dynrun::engine::typical;
using dynrun::engine::Way;

namespace {

constexpr std::size_t kFunction = 7;

/// Calls of a function that take so many microseconds in each way, a tick each, until it is settled; -1 where that does not come.
int settled(Trials& trials, std::array<std::uint64_t, 3> took, int calls = 100000) {
  for (int i = 0; i < calls; i++) {
    const auto call = trials.next(kFunction, 0);
    if (!call) return -1;
    const std::uint64_t noise = static_cast<std::uint64_t>(i * 7919 % 10);
    if (const auto way = trials.note(*call, took[static_cast<std::size_t>(call->way)] + noise, 0, 1.0)) return static_cast<int>(*way);
  }
  return -1;
}

}  // namespace

TEST_CASE("what nobody suspects is not timed", "[trials]") {
  Trials trials;
  CHECK(!trials.any());
  CHECK(!trials.next(kFunction, 0));
}

TEST_CASE("a function runs in the way that is clearly the fastest", "[trials]") {
  const auto [took, way] = GENERATE(table<std::array<std::uint64_t, 3>, Way>({{{500, 480, 490}, Way::kHere}, {{500, 300, 400}, Way::kLeft}, {{500, 400, 300}, Way::kPlain}}));
  Trials trials;
  CHECK(trials.suspect(kFunction));
  CHECK(!trials.suspect(kFunction));
  CHECK(settled(trials, took) == static_cast<int>(way));
  CHECK(trials.is_plain(kFunction) == (way == Way::kPlain));
  CHECK(trials.tries(kFunction) == (way != Way::kLeft));
}

TEST_CASE("it is looked at again when much more time has gone into it", "[trials]") {
  Trials trials;
  trials.suspect(kFunction);
  REQUIRE(settled(trials, {500, 400, 300}) == static_cast<int>(Way::kPlain));
  CHECK(settled(trials, {200, 400, 300}, 1000) == -1);
  CHECK(settled(trials, {200, 400, 300}) == static_cast<int>(Way::kHere));
}

TEST_CASE("long calls, and those that record, are left as they are", "[trials]") {
  Trials trials;
  trials.suspect(kFunction);
  CHECK(settled(trials, {30000, 1, 1}) == -1);
  CHECK(!trials.any());
  trials.forget();
  trials.suspect(kFunction);
  for (int i = 0; i < 1000; i++) trials.note(*trials.next(kFunction, 0), 500, 1, 1.0);
  CHECK(trials.next(kFunction, 0)->way == Way::kHere);
}

TEST_CASE("a function that always raises is not tried for ever", "[trials]") {
  Trials trials;
  trials.suspect(kFunction);
  while (trials.next(kFunction, 0)->way == Way::kHere) trials.note({kFunction, Way::kHere, 0}, 500, 0, 1.0);
  int calls = 0;
  while (trials.next(kFunction, 0) && calls < 100000) calls++;
  CHECK(calls < 1000);
  CHECK(!trials.any());
}

TEST_CASE("a few slow calls do not count", "[trials]") {
  CHECK(typical({9000, 9000, 10, 5000, 12, 11, 4000, 13}, 2) == Approx(11));
}
