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

TEST_CASE("where an operator raises, the undoing replayer leaves its inputs as they were, versions too", "[replayer]") {
  auto graph = std::make_shared<graph::Graph>(graph::parse(R"(
input %x: float32[4]
input %y: float32[2, 3]
input %mean: float32[3]
input %variance: float32[3]
%part: float32[2] = aten::slice.Tensor(%x, 0, 0, 2, 1)
%part = aten::add_.Scalar(%part, 1, 1)
%x = aten::mul_.Scalar(%x, 2)
%norm: float32[2, 3] = aten::batch_norm(%y, None, None, %mean, %variance, true, 0.1, 1e-05, false)
%z: float32[2, 2] = aten::mm(%norm, %y)
return %z
)"));
  REQUIRE_FALSE(graph::verify(*graph));
  at::Tensor x = at::arange(4.0), y = at::randn({2, 3}), mean = at::zeros({3}), variance = at::ones({3});
  auto executable = runtime::make_undoing_replayer(graph);
  CHECK(executable->undoes());
  const auto version = x._version();
  CHECK_THROWS_AS(executable->run({x, y, mean, variance}), c10::Error);
  CHECK(at::equal(x, at::arange(4.0)));
  CHECK(at::equal(mean, at::zeros({3})));
  CHECK(at::equal(variance, at::ones({3})));
  CHECK(x._version() == version);
}
