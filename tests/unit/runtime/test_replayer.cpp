#include "runtime/executable.h"

#include <ATen/ATen.h>
#include <catch2/catch.hpp>

using namespace dynrun;

namespace {

std::unique_ptr<runtime::Executable> replayer(const char* text) {
  auto graph = std::make_shared<graph::Graph>(graph::parse(text));
  REQUIRE_FALSE(graph::verify(*graph));
  return runtime::make_replayer(graph);
}

}  // namespace

TEST_CASE("the replayer runs lists, optionals and in-place operators", "[replayer]") {
  auto executable = replayer(R"(
input %x: float32[4, 6]
parameter %w: float32[5, 6]
%h: float32[4, 5] = aten::linear(%x, %w, None)
%h = aten::relu_(%h)
[%a: float32[2, 5], %b: float32[2, 5]] = aten::chunk(%h, 2, 0)
%c: float32[4, 5] = aten::cat([%b, %a], 0)
%i: int64[2] = aten::full([2], 1, 4, None, None, None)
%d: float32[2, 5] = aten::index.Tensor(%c, [%i])
_, %m: int64[4] = aten::max.dim(%c, -1, false)
return %c, %d, %m, %a, %x
)");
  at::Tensor x = at::randn({4, 6}), w = at::randn({5, 6});
  auto outputs = executable->run({x, w});
  at::Tensor h = at::linear(x, w).relu();
  at::Tensor c = at::cat({h.slice(0, 2), h.slice(0, 0, 2)}, 0);
  CHECK(at::equal(outputs[0], c));
  CHECK(at::equal(outputs[1], at::stack({c[1], c[1]})));
  CHECK(at::equal(outputs[2], std::get<1>(c.max(-1))));
  CHECK(outputs[3].is_view());
  CHECK(outputs[4].is_same(x));
}

TEST_CASE("the replayer keeps each node's mode", "[replayer]") {
  auto executable = replayer(R"(
input %x: float32[3]!grad
%a: float32[3]!grad = aten::mul.Scalar(%x, 2) mode(grad)
%b: float32[3] = aten::mul.Scalar(%a, 2)
%c: float32[3] = aten::mul.Scalar(%b, 2) mode(inference)
return %a, %b, %c
)");
  at::Tensor x = at::ones({3}).requires_grad_();
  auto outputs = executable->run({x});
  CHECK(outputs[0].requires_grad());
  CHECK_FALSE(outputs[1].requires_grad());
  CHECK(outputs[2].is_inference());
  CHECK(at::GradMode::is_enabled());
  CHECK_FALSE(c10::InferenceMode::is_enabled());
}

TEST_CASE("the replayer hands over an operator's error and leaves the mode as it was", "[replayer]") {
  auto executable =
      replayer("input %x: float32[2, 3]\ninput %y: float32[2, 3]\n%z: float32[2, 2] = aten::mm(%x, %y)\nreturn %z\n");
  CHECK_THROWS_AS(executable->run({at::ones({2, 3}), at::ones({2, 3})}), c10::Error);
  CHECK(at::GradMode::is_enabled());
}
