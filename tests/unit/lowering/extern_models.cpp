// Times of real models with library kernels alone: DYNRUN_GRAPHS=FOLDER lowering_tests "[extern-models]", where
// FOLDER holds what dump_graph.py writes; DYNRUN_STEPS=1 prints each step's time.

#include "extern_harness.h"

#include "lowering/extern/candidates.h"
#include "runtime/executable.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

using namespace dynrun::lowering::test;
using Clock = std::chrono::steady_clock;

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

template <typename First, typename Second>
std::pair<double, double> best_times(const First& first, const Second& second) {
  constexpr int kRounds = 20;
  double a = 1e9, b = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    auto start = Clock::now();
    first();
    auto middle = Clock::now();
    second();
    a = std::min(a, milliseconds(middle - start)), b = std::min(b, milliseconds(Clock::now() - middle));
  }
  return {a, b};
}

/// Values of a plausible size: weights like a trained layer's, token numbers below the vocabulary.
std::vector<at::Tensor> model_inputs(const dynrun::graph::Graph& graph) {
  std::vector<at::Tensor> inputs;
  for (const dynrun::graph::Input& input : graph.inputs) {
    const auto& type = graph.type_of(input.value);
    at::Tensor tensor = at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype));
    if (!at::isFloatingType(type.dtype)) {
      tensor = type.dtype == c10::ScalarType::Bool ? tensor.fill_(true) : tensor.random_(0, 2);
    } else {
      const bool parameter = input.kind == dynrun::graph::InputKind::kParameter;
      const double fan_in = type.sizes.size() > 1 ? static_cast<double>(type.element_count() / type.sizes[0]) : 1;
      tensor.normal_(0, parameter && type.sizes.size() > 1 ? std::sqrt(2 / fan_in) : 0.5);
      const std::string& name = graph.values[static_cast<std::size_t>(input.value)].name;
      if (name.find("var") != std::string::npos) tensor.abs_().add_(0.5);
    }
    inputs.push_back(tensor);
  }
  return inputs;
}

TEST_CASE("real models with library kernels", "[.extern-models]") {
  const char* folder = std::getenv("DYNRUN_GRAPHS");
  REQUIRE(folder != nullptr);
  const char* only = std::getenv("DYNRUN_MODEL");
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".graph" || (only != nullptr && entry.path().stem() != only)) continue;
    std::stringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    auto graph = std::make_shared<const dynrun::graph::Graph>(dynrun::graph::parse(text.str()));
    const std::vector<at::Tensor> inputs = model_inputs(*graph);
    auto eager = dynrun::runtime::make_replayer(graph);
    const std::vector<at::Tensor> expected = eager->run(inputs);
    const auto start = Clock::now();
    const ExternProgram program(graph, inputs);
    const double lowering_time = milliseconds(Clock::now() - start);
    const std::vector<at::Tensor> outputs = program.run(inputs);
    double difference = 0;
    for (std::size_t index = 0; index < outputs.size(); ++index) {
      difference =
          std::max(difference, ((outputs[index] - expected[index]).abs().max() / expected[index].abs().max()).item<double>());
      CHECK(outputs[index].strides() == expected[index].strides());
    }
    CHECK(difference < 1e-4);
    const auto [eager_time, own_time] = best_times([&] { eager->run(inputs); }, [&] { program.run(inputs); });
    const long before = page_faults();
    program.run(inputs);
    const long faults = page_faults() - before;
    std::printf(
        "%-24s eager %8.2f ms  library kernels %8.2f ms  %.2fx  claimed %zu of %d  lowering %.0f ms  difference %.1e  page "
        "faults %ld\n",
        entry.path().stem().c_str(), eager_time, own_time, eager_time / own_time, program.claimed_steps().size(),
        program.step_count(), lowering_time, difference, faults);
    std::fflush(stdout);
    if (std::getenv("DYNRUN_STEPS") != nullptr) {
      for (const std::string& line : program.time_steps(inputs)) std::printf("%s\n", line.c_str());
    }
  }
  if (std::getenv("DYNRUN_STEPS") != nullptr) {
    for (const std::string& line : dynrun::lowering::measurements()) std::printf("%s\n", line.c_str());
  }
}

}  // namespace
