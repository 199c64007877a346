#include "trace/sure_sizes.h"

#include "graph/text.h"
#include "interpreter.h"

#include <catch2/catch.hpp>

namespace dynrun::trace {
namespace {

/// Whether a graph of one operator is trusted at other sizes.
bool is_sure(const std::string& recorded, const std::string& now) {
  test::start_torch();
  return sizes_are_sure(graph::parse(recorded), graph::parse(now));
}

}  // namespace

TEST_CASE("a norm is trusted at the channels of the recording", "[sure_sizes]") {
  auto norm = [](int batch, int channels) {
    const std::string type = "float32[" + std::to_string(batch) + ", " + std::to_string(channels) + "]";
    return "graph\ninput %x: " + type + "\n%y: " + type + " = aten::group_norm(%x, 4, None, None, 1e-05, true)\nreturn %y\n";
  };
  CHECK(is_sure(norm(2, 8), norm(5, 8)));
  CHECK_FALSE(is_sure(norm(2, 8), norm(2, 18)));
}

TEST_CASE("what may warn at some sizes is not trusted", "[sure_sizes]") {
  const std::string text = "graph\ninput %x: float32[10]\n%y: float32[] = aten::std.correction(%x, [0], 5, false)\nreturn %y\n";
  CHECK_FALSE(is_sure(text, text));
}

TEST_CASE("pointwise functions and products are trusted", "[sure_sizes]") {
  auto text = [](const std::string& n) {
    return "graph\ninput %x: float32[" + n + ", 4]\ninput %w: float32[4, 4]\n%y: float32[" + n + ", 4] = aten::mm(%x, %w)\n%z: float32[" + n + ", 4] = aten::relu(%y)\nreturn %z\n";
  };
  CHECK(is_sure(text("3"), text("7")));
}

}  // namespace dynrun::trace
