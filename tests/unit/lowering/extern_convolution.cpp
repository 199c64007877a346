#include "extern_harness.h"

#include "lowering/extern/candidates.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <catch2/catch.hpp>

#include <cmath>

namespace {

using namespace dynrun::lowering::test;

struct Shape {
  int batch, channels, height, width, filters, kernel, stride, padding, dilation, groups;
  int products() const { return channels / groups * kernel * kernel; }
  int out(int size) const { return (size + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
  std::string input() const { return fmt::format("float32[{}, {}, {}, {}]", batch, channels, height, width); }
  std::string output() const { return fmt::format("float32[{}, {}, {}, {}]", batch, filters, out(height), out(width)); }
  std::string weight() const { return fmt::format("float32[{}, {}, {}, {}]", filters, channels / groups, kernel, kernel); }
  std::string call(const std::string& input, const std::string& bias) const {
    return fmt::format("aten::conv2d({}, %weight, {}, int[{}, {}], int[{}, {}], int[{}, {}], {})", input, bias, stride, stride,
                       padding, padding, dilation, dilation, groups);
  }
};

const Shape kShapes[] = {
    {1, 3, 32, 32, 16, 3, 2, 1, 1, 1}, {1, 16, 15, 17, 24, 1, 1, 0, 1, 1}, {2, 32, 14, 14, 32, 3, 1, 1, 1, 32},
    {1, 32, 9, 9, 64, 3, 1, 2, 2, 4},  {1, 7, 11, 5, 13, 3, 2, 0, 1, 1},   {1, 8, 1, 1, 12, 1, 1, 0, 1, 1},
    {1, 1, 28, 28, 6, 5, 1, 2, 1, 1},  {3, 12, 8, 8, 12, 5, 3, 2, 1, 12},  {1, 64, 7, 7, 64, 7, 1, 3, 1, 64},
    {1, 5, 6, 6, 1, 3, 1, 1, 1, 1},    {2, 256, 6, 5, 32, 3, 1, 1, 1, 1}, {1, 384, 5, 5, 16, 5, 2, 2, 1, 1},
};

std::string two_convolutions(const Shape& s, const std::string& middle) {
  // The second convolution makes the first one's output an inner value, which may change its layout.
  return fmt::format(
      "graph\ninput %x: {}\nparameter %weight: {}\nparameter %bias: float32[{}]\nparameter %last: float32[4, {}, 1, 1]\n"
      "%y: {} = {}\n{}%w: float32[{}, 4, {}, {}] = aten::conv2d(%z, %last, None, int[1, 1], int[0, 0], int[1, 1], 1)\nreturn "
      "%w\n",
      s.input(), s.weight(), s.filters, s.filters, s.output(), s.call("%x", "%bias"), middle, s.batch, s.out(s.height),
      s.out(s.width));
}

const char* const kEpilogues[] = {
    "aten::relu(%y)",
    "aten::hardtanh(%y, 0, 6)",
    "aten::relu6(%y)",
    "aten::sigmoid(%y)",
    "aten::tanh(%y)",
    "aten::silu(%y)",
    "aten::hardswish(%y)",
    "aten::hardsigmoid(%y)",
    "aten::gelu(%y, \"none\")",
    "aten::leaky_relu(%y, 0.1)",
    "aten::clamp(%y, -0.5, 0.5)",
};

/// Sums of thousands of products are brought to the size of one, that functions which cut them off do not hide how large they were.
ExternRun run_shape(const Shape& s, const std::string& text) {
  auto inputs = random_inputs(dynrun::graph::parse(text));
  if (s.products() > 1000) inputs[1] = inputs[1] / std::sqrt(s.products());
  return run_extern(text, inputs, inputs);
}

TEST_CASE("convolutions of many shapes equal the operator", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  for (const Shape& s : kShapes) {
    for (const char* bias : {"%bias", "None"}) {
      const std::string text =
          fmt::format("graph\ninput %x: {}\nparameter %weight: {}\nparameter %bias: float32[{}]\n%y: {} = {}\nreturn %y\n",
                      s.input(), s.weight(), s.filters, s.output(), s.call("%x", bias));
      CAPTURE(text);
      CHECK(all_close(run_shape(s, text)));
    }
  }
}

TEST_CASE("convolutions with epilogues equal the operators", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  for (const Shape& s : kShapes) {
    for (const char* epilogue : kEpilogues) {
      std::string call = epilogue;
      const std::string text = two_convolutions(s, fmt::format("%z: {} = {}\n", s.output(), call));
      CAPTURE(text);
      CHECK(all_close(run_shape(s, text)));
    }
  }
}

TEST_CASE("NaN and infinity pass through fused epilogues as through the operators", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  const Shape s = kShapes[1];
  for (const char* call : {"aten::relu(%y)", "aten::hardtanh(%y, 0.0, 6.0)", "aten::hardsigmoid(%y)"}) {
    const std::string text = two_convolutions(s, fmt::format("%z: {} = {}\n", s.output(), call));
    auto inputs = random_inputs(dynrun::graph::parse(text));
    CAPTURE(text);
    for (double special : {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity(), 1e38}) {
      auto strange = inputs;
      strange[0] = inputs[0].clone();
      strange[0][0][1][2][3] = special;
      CHECK(all_close(run_extern(text, inputs, strange)));
      auto weights = inputs;
      weights[1] = inputs[1].clone();
      weights[1][2][1][0][0] = special;
      CHECK(all_close(run_extern(text, weights, weights)));
    }
  }
}

TEST_CASE("a residual sum is accumulated by the convolution", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  std::vector<std::string> lasts = {""};
  for (std::string call : kEpilogues) lasts.push_back("%z: float32[1, 16, 8, 8] = " + call.replace(call.find("%y"), 2, "%s") + "\n");
  for (const std::string& last : lasts) {
    const std::string text = fmt::format(
        "graph\ninput %x: float32[1, 16, 8, 8]\nparameter %a: float32[16, 16, 3, 3]\nparameter %b: float32[16, 16, 3, "
        "3]\nparameter %c: float32[4, 16, 1, 1]\n"
        "%p: float32[1, 16, 8, 8] = aten::conv2d(%x, %a, None, int[1, 1], int[1, 1], int[1, 1], 1)\n"
        "%q: float32[1, 16, 8, 8] = aten::relu(%p)\n"
        "%r: float32[1, 16, 8, 8] = aten::conv2d(%q, %b, None, int[1, 1], int[1, 1], int[1, 1], 1)\n"
        "%s: float32[1, 16, 8, 8] = aten::add.Tensor(%p, %r, 1)\n{}"
        "%w: float32[1, 4, 8, 8] = aten::conv2d({}, %c, None, int[1, 1], int[0, 0], int[1, 1], 1)\nreturn %w\n",
        last, last.empty() ? "%s" : "%z");
    CAPTURE(text);
    ExternRun run = run_extern(text);
    CHECK(all_close(run, 8));
    if (run.steps.size() == 3 || run.steps.size() == 4) CHECK(claimed(run, "+ sum"));
    if (last.find("relu(") == std::string::npos) continue;
    auto inputs = random_inputs(dynrun::graph::parse(text)), strange = inputs;
    strange[0] = inputs[0].clone();
    strange[0][0][1][2][3] = std::numeric_limits<double>::quiet_NaN();
    CHECK(all_close(run_extern(text, inputs, strange), 8));
  }
}

TEST_CASE("sums of thousands of products are rounded about as libtorch's own kernels round them", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  const Shape s = {1, 256, 8, 8, 64, 3, 1, 1, 1, 1};
  const std::string text = two_convolutions(s, fmt::format("%z: {} = aten::relu(%y)\n", s.output()));
  const auto inputs = random_inputs(dynrun::graph::parse(text));
  const ExternRun run = run_extern(text, inputs, inputs);
  CHECK(claimed(run, "in 2 parts"));
  std::vector<at::Tensor> exact;
  for (const at::Tensor& input : inputs) exact.push_back(input.to(at::kDouble));
  const at::Tensor inner = at::conv2d(exact[0], exact[1], exact[2], 1, 1).relu();
  const at::Tensor truth = at::conv2d(inner, exact[3]);
  auto off = [&](const at::Tensor& result) { return (result.to(at::kDouble) - truth).square().mean().sqrt().item<double>(); };
  // One chain: four times as far off.
  CHECK(off(run.outputs[0]) < 3.2 * off(run.expected[0]));
}

TEST_CASE("batch norm is folded into the convolution before it", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  const std::string text =
      "graph\ninput %x: float32[1, 6, 9, 9]\nparameter %weight: float32[8, 6, 3, 3]\nparameter %gamma: float32[8]\nparameter "
      "%beta: float32[8]\n"
      "parameter %mean: float32[8]\nparameter %variance: float32[8]\n"
      "%y: float32[1, 8, 9, 9] = aten::conv2d(%x, %weight, None, int[1, 1], int[1, 1], int[1, 1], 1)\n"
      "%z: float32[1, 8, 9, 9] = aten::batch_norm(%y, %gamma, %beta, %mean, %variance, false, 0.1, 1e-05, true)\n"
      "%r: float32[1, 8, 9, 9] = aten::relu(%z)\nreturn %r\n";
  ExternRun run = run_extern(text);
  CHECK(all_close(run));
  CHECK(run.dispatched + run.steps.size() <= 2);
  CHECK(run.folded == std::vector<bool>{false, true, true, true, true, true});
}

TEST_CASE("named padding is read; what is not understood is left to the dispatcher", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  const std::string head = "graph\ninput %x: float32[1, 6, 9, 9]\nparameter %weight: float32[8, 6, 3, 3]\n";
  CHECK(all_close(run_extern(
      head +
      "%y: float32[1, 8, 9, 9] = aten::conv2d.padding(%x, %weight, None, int[1, 1], \"same\", int[1, 1], 1)\nreturn %y\n")));
  CHECK(all_close(run_extern(
      head +
      "%y: float32[1, 8, 7, 7] = aten::conv2d.padding(%x, %weight, None, int[1, 1], \"valid\", int[1, 1], 1)\nreturn %y\n")));
  const std::string even = "graph\ninput %x: float32[1, 6, 9, 9]\nparameter %weight: float32[8, 6, 2, 2]\n";
  ExternRun run = run_extern(
      even +
      "%y: float32[1, 8, 9, 9] = aten::conv2d.padding(%x, %weight, None, int[1, 1], \"same\", int[1, 1], 1)\nreturn %y\n");
  CHECK(all_close(run));
  CHECK(run.steps.empty());
  const std::string transposed = "graph\ninput %x: float32[1, 6, 9, 9]\nparameter %weight: float32[6, 8, 3, 3]\n";
  run = run_extern(transposed +
                   "%y: float32[1, 8, 11, 11] = aten::convolution(%x, %weight, None, int[1, 1], int[0, 0], int[1, 1], true, "
                   "int[0, 0], 1)\nreturn %y\n");
  CHECK(all_close(run));
  CHECK(run.steps.empty());
}

TEST_CASE("squeeze and excitation equals the operators", "[extern]") {
  for (const char* way : {"", "small"}) {
    const dynrun::lowering::PreferLibrary prefer(way);
    const std::string text =
        "graph\ninput %x: float32[2, 6, 9, 9]\nparameter %a: float32[16, 6, 3, 3]\nparameter %b: float32[5, 16, 1, "
        "1]\nparameter %c: float32[16, 5, 1, 1]\n"
        "parameter %d: float32[16]\n"
        "%p: float32[2, 16, 9, 9] = aten::conv2d(%x, %a, None, int[1, 1], int[1, 1], int[1, 1], 1)\n"
        "%q: float32[2, 16, 1, 1] = aten::adaptive_avg_pool2d(%p, int[1, 1])\n"
        "%r: float32[2, 5, 1, 1] = aten::conv2d(%q, %b, None, int[1, 1], int[0, 0], int[1, 1], 1)\n"
        "%s: float32[2, 5, 1, 1] = aten::relu(%r)\n"
        "%t: float32[2, 16, 1, 1] = aten::conv2d(%s, %c, %d, int[1, 1], int[0, 0], int[1, 1], 1)\n"
        "%u: float32[2, 16, 1, 1] = aten::sigmoid(%t)\n"
        "%y: float32[2, 16, 9, 9] = aten::mul.Tensor(%u, %p)\nreturn %y\n";
    CHECK(all_close(run_extern(text)));
  }
}

TEST_CASE("pooling and concatenation keep eager's values in any layout", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  const std::string text =
      "graph\ninput %x: float32[1, 6, 16, 16]\nparameter %a: float32[8, 6, 3, 3]\nparameter %b: float32[8, 6, 1, 1]\nparameter "
      "%c: float32[4, 16, 1, 1]\n"
      "%p: float32[1, 8, 16, 16] = aten::conv2d(%x, %a, None, int[1, 1], int[1, 1], int[1, 1], 1)\n"
      "%q: float32[1, 8, 16, 16] = aten::conv2d(%x, %b, None, int[1, 1], int[0, 0], int[1, 1], 1)\n"
      "%k: float32[1, 16, 16, 16] = aten::cat([%p, %q], 1)\n"
      "%m: float32[1, 16, 8, 8] = aten::max_pool2d(%k, int[2, 2], int[2, 2], int[0, 0], int[1, 1], false)\n"
      "%v: float32[1, 16, 8, 8] = aten::avg_pool2d(%m, int[3, 3], int[1, 1], int[1, 1], false, true, None)\n"
      "%w: float32[1, 4, 8, 8] = aten::conv2d(%v, %c, None, int[1, 1], int[0, 0], int[1, 1], 1)\n"
      "%o: float32[1, 4, 1, 1] = aten::adaptive_avg_pool2d(%w, int[1, 1])\nreturn %o, %w\n";
  CHECK(all_close(run_extern(text)));
}

}  // namespace
