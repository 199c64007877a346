#include "extern_harness.h"

#include "runtime/executable.h"
#include "runtime/plan.h"

#include <ATen/ATen.h>

#include <map>

namespace dynrun::lowering::test {
namespace {

Program make_program(const graph::Graph& graph, const std::vector<at::Tensor>& examples, const Options& options) {
  Program program;
  program.graph = graph;
  program.examples = examples;
  program.folded.assign(graph.inputs.size(), false);
  program.options = &options;
  for (graph::ValueId id : graph.outputs) program.output_types.push_back(graph.type_of(id));
  return program;
}

void run_kernel(const Program& program, const LibraryKernel& kernel, runtime::Slots& slots, ExternRun& run) {
  auto step = kernel.make({kernel.inputs.begin(), kernel.inputs.end()}, {kernel.outputs.begin(), kernel.outputs.end()});
  if (!kernel.makes_outputs) {
    for (graph::ValueId id : kernel.outputs) {
      const graph::TensorType& type = program.graph.type_of(id);
      slots[id] = at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype));
    }
    if (kernel.accumulate_into >= 0) slots[kernel.outputs[0]].copy_(slots[kernel.inputs[static_cast<std::size_t>(kernel.accumulate_into)]]);
  }
  step->run(slots);
  for (graph::ValueId id : kernel.outputs) {
    const graph::TensorType& type = program.graph.type_of(id);
    TORCH_CHECK(slots[id].sizes() == type.sizes && slots[id].strides() == type.strides, step->describe(), ": layout is not the declared one");
  }
  run.steps.push_back(step->describe());
}

}  // namespace

std::vector<at::Tensor> random_inputs(const graph::Graph& graph) {
  std::vector<at::Tensor> inputs;
  for (const graph::Input& input : graph.inputs) {
    const graph::TensorType& type = graph.type_of(input.value);
    at::Tensor tensor = at::empty_strided(type.sizes, type.strides).normal_();
    // Variances are positive.
    if (graph.values[static_cast<std::size_t>(input.value)].name.find("variance") != std::string::npos) tensor = tensor.abs_().add_(0.5);
    inputs.push_back(tensor);
  }
  return inputs;
}

ExternRun run_extern(const std::string& text, const std::vector<at::Tensor>& examples, const std::vector<at::Tensor>& inputs) {
  auto graph = std::make_shared<const graph::Graph>(graph::parse(text));
  ExternRun run;
  run.expected = runtime::make_replayer(graph)->run(inputs);
  Options options;
  Program program = make_program(*graph, examples, options);
  fold_batch_norm(program);
  choose_layouts(program);
  std::map<std::int32_t, const LibraryKernel*> kernel_of;
  const std::vector<LibraryKernel> kernels = claim_library_kernels(program);
  for (const LibraryKernel& kernel : kernels) {
    for (std::int32_t node : kernel.nodes) kernel_of[node] = &kernel;
  }
  runtime::Slots slots(program.graph.values.size());
  for (std::size_t index = 0; index < inputs.size(); ++index) slots[graph->inputs[index].value] = inputs[index];
  for (const auto& [id, tensor] : program.constants) slots[id] = tensor;
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(program.graph.nodes.size()); ++index) {
    auto kernel = kernel_of.find(index);
    if (kernel == kernel_of.end()) {
      const graph::Node& node = program.graph.nodes[static_cast<std::size_t>(index)];
      runtime::make_dispatch_step(program.graph, node, [](graph::ValueId id) { return id; })->run(slots);
      ++run.dispatched;
    } else if (kernel->second->nodes.back() == index) {
      run_kernel(program, *kernel->second, slots, run);
    }
  }
  for (graph::ValueId id : program.graph.outputs) run.outputs.push_back(slots[id]);
  run.folded = program.folded;
  return run;
}

ExternRun run_extern(const std::string& text) {
  const std::vector<at::Tensor> inputs = random_inputs(graph::parse(text));
  return run_extern(text, inputs, inputs);
}

bool close(const at::Tensor& actual, const at::Tensor& expected) {
  constexpr double kRelative = 1.3e-6, kAbsolute = 1e-5;
  if (actual.sizes() != expected.sizes() || actual.strides() != expected.strides() || actual.dtype() != expected.dtype()) return false;
  // Sums of a thousand products of size one differ by more than one product does: the tolerance grows with the result's scale.
  const at::Tensor finite = at::where(at::isfinite(expected), expected, at::zeros_like(expected));
  const double scale = std::max(1.0, finite.abs().max().item<double>());
  return at::allclose(actual, expected, kRelative, kAbsolute * scale, /*equal_nan=*/true);
}

bool all_close(const ExternRun& run) {
  if (run.outputs.size() != run.expected.size()) return false;
  for (std::size_t index = 0; index < run.outputs.size(); ++index) {
    if (!close(run.outputs[index], run.expected[index])) return false;
  }
  return true;
}

bool claimed(const ExternRun& run, const std::string& what) {
  for (const std::string& step : run.steps) {
    if (step.find(what) != std::string::npos) return true;
  }
  return false;
}

}  // namespace dynrun::lowering::test
