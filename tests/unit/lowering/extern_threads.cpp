#include "extern_harness.h"

#include "lowering/extern/candidates.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <catch2/catch.hpp>

#include <thread>

namespace {

using namespace dynrun::lowering::test;

// Convolution with a guarded relu and a residual sum, attention, and both kinds of linear layer.
const char* const kText =
    "graph\ninput %x: float32[1, 16, 8, 8]\nparameter %a: float32[16, 16, 3, 3]\nparameter %b: float32[16, 16, 3, 3]\n"
    "parameter %w: float32[24, 8]\nparameter %v: float32[8]\n"
    "%p: float32[1, 16, 8, 8] = aten::conv2d(%x, %a, None, int[1, 1], int[1, 1], int[1, 1], 1)\n"
    "%q: float32[1, 16, 8, 8] = aten::relu(%p)\n"
    "%r: float32[1, 16, 8, 8] = aten::conv2d(%q, %b, None, int[1, 1], int[1, 1], int[1, 1], 1)\n"
    "%s: float32[1, 16, 8, 8] = aten::add.Tensor(%p, %r, 1)\n"
    "%t: float32[1, 16, 8, 8] = aten::relu(%s)\n"
    "%u: float32[1, 16, 8, 8] = aten::scaled_dot_product_attention(%t, %t, %t, None, 0.0, true, None, false)\n"
    "%y: float32[1, 16, 8, 24] = aten::linear(%u, %w, None)\n"
    "%z: float32[1, 16, 8, 24] = aten::silu(%y)\nreturn %z, %s\n";

TEST_CASE("one program runs on several threads at once", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  auto graph = std::make_shared<const dynrun::graph::Graph>(dynrun::graph::parse(kText));
  const std::vector<at::Tensor> inputs = random_inputs(*graph);
  const ExternProgram program(graph, inputs);
  constexpr int kThreads = 4, kRuns = 20;
  std::vector<std::vector<at::Tensor>> examples;
  std::vector<std::vector<at::Tensor>> expected;
  for (int thread = 0; thread < kThreads; ++thread) {
    auto own = inputs;
    // One thread's input is not finite: its flag must not reach the others.
    own[0] = at::empty_like(inputs[0]).normal_();
    if (thread == 1) own[0][0][0][0][0] = std::numeric_limits<double>::quiet_NaN();
    examples.push_back(own);
    expected.push_back(program.run(own));
  }
  std::vector<int> wrong(kThreads, 0);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      const auto own = static_cast<std::size_t>(thread);
      for (int run = 0; run < kRuns; ++run) {
        const auto outputs = program.run(examples[own]);
        for (std::size_t index = 0; index < outputs.size(); ++index) wrong[own] += !close(outputs[index], expected[own][index]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(kThreads, 0));
}

TEST_CASE("the number of threads may change after lowering", "[extern]") {
  const dynrun::lowering::PreferLibrary prefer;
  auto graph = std::make_shared<const dynrun::graph::Graph>(dynrun::graph::parse(kText));
  const std::vector<at::Tensor> inputs = random_inputs(*graph);
  const ExternProgram program(graph, inputs);
  const auto expected = program.run(inputs);
  const int before = at::get_num_threads();
  for (int count : {1, 2, 3}) {
    at::set_num_threads(count);
    const auto outputs = program.run(inputs);
    for (std::size_t index = 0; index < outputs.size(); ++index) CHECK(close(outputs[index], expected[index]));
  }
  at::set_num_threads(before);
}

}  // namespace
