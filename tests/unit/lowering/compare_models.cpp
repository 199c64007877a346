// Compares lowered graphs with their replay, on real models: DYNRUN_GRAPHS="a.graph b.graph" lowering_tests "[models]"
// (dump_graph.py writes such files). Prints the largest difference and the times of both, taken in turn.

#include "lowering/lower.h"
#include "random_inputs.h"

#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace dynrun;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2] * 1e3;
}

void show(lowering::Options& options) {
  const char* wanted = std::getenv("DYNRUN_DUMP");
  if (wanted == nullptr) return;
  options.dump = [wanted = std::string(wanted)](const std::string& stage, const std::string& text) {
    if (stage.find(wanted) != std::string::npos) std::cout << "---- " << stage << "\n" << text;
  };
}

/// To find the first wrong value: all of them become outputs (which changes what is fused).
void hand_out_everything(graph::Graph& graph) {
  graph.outputs.clear();
  for (const graph::Node& node : graph.nodes) {
    for (graph::ValueId id : node.outputs) {
      if (id != graph::kNoValue) graph.outputs.push_back(id);
    }
  }
}

void show_difference(const graph::Graph& graph, std::size_t output, const at::Tensor& expected, const at::Tensor& got) {
  at::Tensor a = expected.to(at::kDouble), b = got.to(at::kDouble);
  std::cout << fmt::format("  %{:30} max diff {:.2g} of {:.2g}\n",
                           graph.values[static_cast<std::size_t>(graph.outputs[output])].name,
                           (a - b).abs().max().item<double>(), a.abs().max().item<double>());
}

/// How far float32 results are from the same graph run in float64: is a difference ours, or eager's own rounding?
std::string against_double(runtime::Executable& eager, runtime::Executable& lowered, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> wide;
  for (const at::Tensor& input : inputs) wide.push_back(input.scalar_type() == at::kFloat ? input.to(at::kDouble) : input);
  try {
    at::Tensor exact = eager.run(wide)[0], a = eager.run(inputs)[0], b = lowered.run(inputs)[0];
    auto error = [&](const at::Tensor& t) { return (t.to(at::kDouble) - exact.to(at::kDouble)).abs().max().item<double>(); };
    return fmt::format("  (off float64: eager {:.2g}, lowered {:.2g})", error(a), error(b));
  } catch (const std::exception&) {
    return "";
  }
}

void compare(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  auto graph = std::make_shared<graph::Graph>(graph::parse(text.str()));
  REQUIRE(graph::verify(*graph).value_or("") == "");
  if (std::getenv("DYNRUN_EVERY_VALUE") != nullptr) hand_out_everything(*graph);
  at::manual_seed(1);
  std::vector<at::Tensor> inputs = test::random_inputs(*graph);
  lowering::Options options;
  show(options);
  double start = now();
  lowering::Lowered lowered = lowering::lower(graph, inputs, options);
  double lower_ms = (now() - start) * 1e3;
  auto eager = runtime::make_replayer(graph);
  double largest = 0, scale = 0;
  bool close = true;
  for (int round = 0; round < 2; ++round) {
    auto expected = eager->run(inputs), got = lowered.executable->run(inputs);
    REQUIRE(expected.size() == got.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      REQUIRE(got[i].sizes() == expected[i].sizes());
      CHECK(got[i].strides() == expected[i].strides());
      REQUIRE(got[i].dtype() == expected[i].dtype());
      if (got[i].numel() == 0) continue;
      largest = std::max(largest, (got[i].to(at::kDouble) - expected[i].to(at::kDouble)).abs().max().item<double>());
      if (std::getenv("DYNRUN_EVERY_VALUE") != nullptr && round == 0) show_difference(*graph, i, expected[i], got[i]);
      scale = std::max(scale, expected[i].to(at::kDouble).abs().max().item<double>());
      close = close && at::allclose(got[i], expected[i], 1.3e-6, 1e-5, true);
    }
  }
  std::vector<double> eager_times, times;
  int rounds = std::getenv("DYNRUN_ROUNDS") != nullptr ? std::atoi(std::getenv("DYNRUN_ROUNDS")) : 15;
  for (int round = 0; round < rounds; ++round) {
    double t0 = now();
    eager->run(inputs);
    double t1 = now();
    lowered.executable->run(inputs);
    eager_times.push_back(t1 - t0);
    times.push_back(now() - t1);
  }
  std::cout << fmt::format(
      "{:40} kernels {:4} extern {:4}  lower {:6.0f} ms  eager {:8.2f} ms  lowered {:8.2f} ms  {:5.2f}x  max diff {:.2g} of "
      "{:.2g}{}\n",
      path.substr(path.rfind('/') + 1), lowered.executable->kernel_count(), lowered.executable->extern_count(), lower_ms,
      median(eager_times), median(times), median(eager_times) / median(times), largest, scale,
      close ? "" : "  NOT CLOSE" + against_double(*eager, *lowered.executable, inputs));
}

}  // namespace

TEST_CASE("lowered models give what their replay gives", "[.][models]") {
  const char* list = std::getenv("DYNRUN_GRAPHS");
  REQUIRE(list != nullptr);
  if (const char* threads = std::getenv("DYNRUN_THREADS")) at::set_num_threads(std::atoi(threads));
  std::istringstream paths(list);
  for (std::string path; paths >> path;) compare(path);
}
