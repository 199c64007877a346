#include "graph/intervals.h"

#include <ATen/ATen.h>
#include <catch2/catch.hpp>

#include <algorithm>

using namespace dynrun::graph;

namespace {

/// The interval of the value that the text returns.
std::optional<Interval> interval(const char* text) {
  Graph graph = parse(text);
  REQUIRE_FALSE(verify(graph));
  return interval_of(graph, graph.outputs.front());
}

}  // namespace

TEST_CASE("places found by going through a dimension lie in it", "[graph]") {
  CHECK(interval("input %x: float32[2, 40]\n%v: float32[2, 8], %i: int64[2, 8] = aten::topk(%x, 8, -1, true, true)\nreturn %i\n") == Interval{0, 39});
  CHECK(interval("input %x: float32[2, 40]\n%v: float32[8, 2], %i: int64[2, 40] = aten::sort(%x, 0, false)\nreturn %i\n") == Interval{0, 1});
  CHECK(interval("input %x: float32[2, 40]\n%i: int64[] = aten::argmax(%x, None, false)\nreturn %i\n") == Interval{0, 79});
  CHECK_FALSE(interval("input %x: float32[2, 40]\n%v: float32[2, 8], %i: int64[2, 8] = aten::topk(%x, 8, -1, true, true)\nreturn %v\n"));
  CHECK_FALSE(interval("input %x: int64[2, 40]\nreturn %x\n"));
}

TEST_CASE("integer arithmetic moves the ends", "[graph]") {
  CHECK(interval("input %x: float32[40]\n%i: int64[40] = aten::argsort(%x, 0, false)\n%d: int64[40] = aten::floor_divide(%i, 10)\nreturn %d\n") == Interval{0, 3});
  CHECK(interval("input %x: int64[4]\n%d: int64[4] = aten::remainder.Scalar(%x, 7)\nreturn %d\n") == Interval{0, 6});
  CHECK(interval("%a: int64[5] = aten::arange(5, None, None, device(\"cpu\"), false)\n%b: int64[5] = aten::mul.Scalar(%a, -3)\n%c: int64[5] = aten::add.Scalar(%b, 1, 1)\nreturn %c\n") ==
        Interval{-11, 1});
  CHECK(interval("input %m: bool[5]\n%a: int64[5] = aten::arange(5, None, None, device(\"cpu\"), false)\n%z: int64[5] = aten::full_like(%a, 9, None, None, None, None, None)\n"
                 "%w: int64[5] = aten::where.self(%m, %a, %z)\nreturn %w\n") == Interval{0, 9});
}

TEST_CASE("what is written to is not told", "[graph]") {
  const char* const written = "input %x: float32[40]\n%i: int64[40] = aten::argsort(%x, 0, false)\n%s: int64[] = aten::select.int(%i, 0, 3)\n%s = aten::add_.Scalar(%s, 90, 1)\nreturn %i\n";
  CHECK_FALSE(interval(written));
  CHECK_FALSE(interval("input %n: int64[4]\n%i: int64[4] = aten::repeat_interleave.Tensor(%n, None)\nreturn %i\n"));
}

TEST_CASE("an index is compared with the dimension that it stands for", "[graph]") {
  Graph graph = parse("input %x: float32[2, 40]\ninput %y: float32[3, 8]\n%v: float32[2, 8], %i: int64[2, 8] = aten::topk(%x, 8, -1, true, true)\n"
                      "%d: int64[2, 8] = aten::floor_divide(%i, 14)\nreturn %d\n");
  const auto value = [&](const char* name) {
    auto found = std::find_if(graph.values.begin(), graph.values.end(), [&](const Value& one) { return one.name == name; });
    return static_cast<ValueId>(found - graph.values.begin());
  };
  CHECK(holds(graph, {value("d"), value("y"), 0}));
  CHECK(holds(graph, {value("d"), value("x"), -1}));
  CHECK_FALSE(holds(graph, {value("d"), value("x"), 0}));
  CHECK_FALSE(holds(graph, {value("i"), value("y"), 1}));
}
