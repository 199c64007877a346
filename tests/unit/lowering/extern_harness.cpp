#include "extern_harness.h"

#include "runtime/executable.h"
#include "runtime/plan.h"

#include <ATen/ATen.h>

#include <fmt/format.h>

#include <chrono>

namespace dynrun::lowering::test {
std::vector<at::Tensor> random_inputs(const graph::Graph& graph) {
  std::vector<at::Tensor> inputs;
  for (const graph::Input& input : graph.inputs) {
    const graph::TensorType& type = graph.type_of(input.value);
    at::Tensor tensor = at::empty_strided(type.sizes, type.strides).normal_();
    // Variances are positive.
    if (graph.values[static_cast<std::size_t>(input.value)].name.find("variance") != std::string::npos)
      tensor = tensor.abs_().add_(0.5);
    inputs.push_back(tensor);
  }
  return inputs;
}

ExternProgram::ExternProgram(std::shared_ptr<const graph::Graph> graph, const std::vector<at::Tensor>& examples)
    : program_(functionalise(*graph, examples, options_)) {
  fold_batch_norm(program_);
  choose_layouts(program_);
  kernels_ = claim_library_kernels(program_);
  std::map<std::int32_t, std::size_t> kernel_of;
  for (std::size_t index = 0; index < kernels_.size(); ++index) {
    for (std::int32_t node : kernels_[index].nodes) kernel_of[node] = index;
  }
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(program_.graph.nodes.size()); ++index) {
    auto found = kernel_of.find(index);
    if (found == kernel_of.end()) {
      const graph::Node& node = program_.graph.nodes[static_cast<std::size_t>(index)];
      steps_.push_back(
          {runtime::make_dispatch_step(program_.graph, node, [](graph::ValueId id) { return id; }), nullptr, node.outputs});
      continue;
    }
    const LibraryKernel& kernel = kernels_[found->second];
    if (kernel.nodes.back() != index) continue;
    steps_.push_back({kernel.make({kernel.inputs.begin(), kernel.inputs.end()}, {kernel.outputs.begin(), kernel.outputs.end()}),
                      &kernel, kernel.outputs});
  }
  for (const auto& [id, view] : program_.views) views_[view.root].push_back(id);
}

void ExternProgram::refresh_views(runtime::Slots& slots, graph::ValueId root) const {
  auto found = views_.find(root);
  if (found == views_.end() || !slots[root].defined()) return;
  for (graph::ValueId id : found->second) {
    const graph::TensorType& type = program_.graph.type_of(id);
    slots[id] = slots[root].as_strided(type.sizes, type.strides, slots[root].storage_offset() + program_.views.at(id).offset);
  }
}

void ExternProgram::run_step(const PlannedStep& planned, runtime::Slots& slots) const {
  if (planned.kernel != nullptr && !planned.kernel->makes_outputs) {
    const LibraryKernel& kernel = *planned.kernel;
    for (graph::ValueId id : kernel.outputs) {
      const graph::TensorType& type = program_.graph.type_of(id);
      slots[id] = at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype));
    }
    if (kernel.accumulate_into >= 0)
      slots[kernel.outputs[0]].copy_(slots[kernel.inputs[static_cast<std::size_t>(kernel.accumulate_into)]]);
  }
  planned.step->run(slots);
  for (graph::ValueId id : planned.outputs) {
    if (id == graph::kNoValue) continue;
    const graph::TensorType& type = program_.graph.type_of(id);
    TORCH_CHECK(planned.kernel == nullptr || (slots[id].sizes() == type.sizes && slots[id].strides() == type.strides),
                planned.step->describe(), ": layout is not the declared one");
    refresh_views(slots, program_.root(id));
  }
}

std::vector<at::Tensor> ExternProgram::run(const std::vector<at::Tensor>& inputs) const {
  c10::InferenceMode inference;
  runtime::Slots slots(program_.graph.values.size());
  for (std::size_t index = 0; index < inputs.size(); ++index) slots[program_.graph.inputs[index].value] = inputs[index];
  for (const auto& [id, tensor] : program_.constants) slots[id] = tensor;
  for (const auto& [root, views] : views_) refresh_views(slots, root);
  for (const PlannedStep& planned : steps_) run_step(planned, slots);
  std::vector<at::Tensor> outputs;
  for (graph::ValueId id : program_.graph.outputs) outputs.push_back(slots[id]);
  return outputs;
}

ExternRun run_extern(const std::string& text, const std::vector<at::Tensor>& examples, const std::vector<at::Tensor>& inputs) {
  auto graph = std::make_shared<const graph::Graph>(graph::parse(text));
  ExternRun run;
  run.expected = runtime::make_replayer(graph)->run(inputs);
  const ExternProgram program(graph, examples);
  run.outputs = program.run(inputs);
  run.steps = program.claimed_steps();
  run.dispatched = program.step_count() - static_cast<int>(run.steps.size());
  run.folded = program.folded();
  return run;
}

std::vector<std::string> ExternProgram::claimed_steps() const {
  std::vector<std::string> claimed;
  for (const PlannedStep& planned : steps_) {
    if (planned.kernel != nullptr) claimed.push_back(planned.step->describe());
  }
  return claimed;
}

std::vector<std::string> ExternProgram::time_steps(const std::vector<at::Tensor>& inputs) const {
  c10::InferenceMode inference;
  constexpr int kRuns = 10;
  std::vector<double> best(steps_.size(), 1e9);
  for (int run = 0; run < kRuns; ++run) {
    runtime::Slots slots(program_.graph.values.size());
    for (std::size_t index = 0; index < inputs.size(); ++index) slots[program_.graph.inputs[index].value] = inputs[index];
    for (const auto& [id, tensor] : program_.constants) slots[id] = tensor;
    for (const auto& [root, views] : views_) refresh_views(slots, root);
    for (std::size_t index = 0; index < steps_.size(); ++index) {
      const auto start = std::chrono::steady_clock::now();
      run_step(steps_[index], slots);
      best[index] =
          std::min(best[index], std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
    }
  }
  std::vector<std::string> lines;
  for (std::size_t index = 0; index < steps_.size(); ++index)
    lines.push_back(fmt::format("{:8.3f} ms  {}", best[index], steps_[index].step->describe()));
  return lines;
}

ExternRun run_extern(const std::string& text) {
  const std::vector<at::Tensor> inputs = random_inputs(graph::parse(text));
  return run_extern(text, inputs, inputs);
}

bool close(const at::Tensor& actual, const at::Tensor& expected, double slack) {
  constexpr double kRelative = 1.3e-6, kAbsolute = 1e-5;
  if (actual.sizes() != expected.sizes() || actual.strides() != expected.strides() || actual.dtype() != expected.dtype())
    return false;
  // Sums of a thousand products of size one differ by more than one product does: the tolerance grows with the result's scale.
  const at::Tensor finite = at::where(at::isfinite(expected), expected, at::zeros_like(expected));
  const double scale = std::max(1.0, finite.abs().max().item<double>());
  return at::allclose(actual, expected, kRelative, kAbsolute * scale * slack, /*equal_nan=*/true);
}

bool all_close(const ExternRun& run, double slack) {
  if (run.outputs.size() != run.expected.size()) return false;
  for (std::size_t index = 0; index < run.outputs.size(); ++index) {
    if (!close(run.outputs[index], run.expected[index], slack)) return false;
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
