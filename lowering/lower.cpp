// The order of lowering. Each pass is a file; this one only says which comes when, and when to replay instead.

#include "lowering/lower.h"

#include "graph/text.h"
#include "graph/visit.h"
#include "lowering/device_parts.h"
#include "lowering/extern/candidates.h"
#include "lowering/extern/library_kernel.h"
#include "lowering/gpu/variants.h"
#include "lowering/gradient_prefix.h"
#include "lowering/moving_views.h"
#include "lowering/parts_lowering.h"
#include "lowering/passes/passes.h"
#include "lowering/schedule.h"
#include "lowering/shared.h"
#include "lowering/unsized_kernel.h"

#include <algorithm>
#include <unordered_set>

#ifdef DYNRUN_CUDA
#include "lowering/gpu/kernel_step.h"
#include "lowering/gpu/products.h"
#include "lowering/gpu/rows_apart.h"
#include "runtime/cuda/measure.h"
#endif

namespace dynrun::lowering {
namespace {

struct Pass {
  const char* name;
  void (*run)(Program&);
};

constexpr Pass kPasses[] = {
    {"remove_dead_nodes", remove_dead_nodes}, {"fold_constants", fold_constants},       {"fold_batch_norm", fold_batch_norm},
    {"patches_as_product", patches_as_product}, {"split_convolution_bias", split_convolution_bias},
    {"choose_layouts", choose_layouts},       {"remove_dead_nodes", remove_dead_nodes},
};

/// Whether kernels can be made for the device.
bool is_served(c10::Device device) {
#ifdef DYNRUN_CUDA
  if (device.is_cuda()) return true;
#endif
  return device.is_cpu();
}

/// The device of the graph's first tensor that is not on the CPU, else the CPU: what numbers of tensors and copies to the CPU become
/// is on both.
c10::Device device_of(const graph::Graph& graph) {
  for (const graph::Value& value : graph.values) {
    if (value.is_tensor() && !value.tensor().device.is_cpu()) return value.tensor().device;
  }
  return c10::kCPU;
}

bool is_plain(const graph::Value& value, c10::Device device) {
  if (!value.is_tensor() || value.tensor().strides.size() != value.tensor().sizes.size()) return false;
  return value.tensor().device == device || value.tensor().device.is_cpu();
}

/// Which values the operators and outputs name: numbers and literals that became part of an operator leave theirs behind.
std::vector<bool> used_values(const graph::Graph& graph) {
  std::vector<bool> used(graph.values.size(), false);
  auto note = [&](graph::ValueId id) {
    if (id != graph::kNoValue) used[static_cast<std::size_t>(id)] = true;
  };
  for (const graph::Node& node : graph.nodes) {
    graph::visit_values(node, note);
    std::for_each(node.outputs.begin(), node.outputs.end(), note);
  }
  std::for_each(graph.outputs.begin(), graph.outputs.end(), note);
  return used;
}

/// Why libtorch's own operators run, one by one: gradients, host values, lazily conjugated or negated tensors, other
/// devices and layouts, changes of mode. Nothing where kernels can be made.
std::optional<std::string> reason_to_replay(const graph::Graph& graph, c10::ArrayRef<at::Tensor> examples) {
  bool needs_grad = false;
  const c10::Device device = device_of(graph);
  if (graph.nodes.empty()) return "it has no operators";
  if (!is_served(device)) return "its device is " + device.str();
  for (const at::Tensor& example : examples) {
    if (example.is_neg() || example.is_conj() || example._is_zerotensor() || !example.has_storage()) return "an input is conjugated, negated or without memory";
  }
  const std::vector<bool> used = used_values(graph);
  for (std::size_t i = 0; i < used.size(); ++i) {
    const graph::Value& value = graph.values[i];
    if (!used[i]) continue;
    if (!is_plain(value, device) || value.tensor().lazy) return "%" + value.name + " is no plain tensor of " + device.str();
    needs_grad = needs_grad || value.tensor().requires_grad;
  }
  for (const graph::Node& node : graph.nodes) {
    if (node.mode.grad_enabled && needs_grad) return "gradients are needed of " + node.op_name();
    if (node.mode.inference != graph.nodes.front().mode.inference) return "the inference mode changes at " + node.op_name();
  }
  return std::nullopt;
}

bool must_replay(const graph::Graph& graph, c10::ArrayRef<at::Tensor> examples, const Options& options) {
  const std::optional<std::string> reason = reason_to_replay(graph, examples);
  if (reason && options.dump) options.dump("graph is not compiled", *reason + "\n");
  return reason.has_value();
}

/// A pass may have changed the layout of a value that is handed out: copy it back into eager's.
void restore_output_layouts(Program& program) {
  auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  for (std::size_t i = 0; i < program.graph.outputs.size(); ++i) {
    graph::ValueId id = program.graph.outputs[i];
    if (id == graph::kNoValue || program.graph.type_of(id).strides == program.output_types[i].strides) continue;
    if (program.graph.type_of(id).element_count() <= 1) continue;
    graph::ValueId copy = program.add_value(program.output_types[i], "out");
    program.graph.nodes.push_back({clone,
                                   {graph::Argument::reference(id), graph::Argument::constant({})},
                                   {copy},
                                   {-1},
                                   program.graph.nodes.front().mode,
                                   -1});
    program.graph.outputs[i] = copy;
  }
}

/// Checked in debug builds, and wherever somebody looks.
void report(const Program& program, const Options& options, const std::string& stage) {
#ifdef NDEBUG
  if (!options.dump) return;
#endif
  if (auto problem = verify(program)) throw std::logic_error("the graph is broken after " + stage + ": " + *problem);
  if (options.dump) options.dump("graph after " + stage, print(program));
}

std::vector<int> folded_inputs(const Program& program) {
  std::vector<int> out;
  for (std::size_t i = 0; i < program.folded.size(); ++i) {
    if (program.folded[i]) out.push_back(static_cast<int>(i));
  }
  return out;
}

void run_passes(Program& program, const Options& options) {
  report(program, options, "functionalise");
  for (const Pass& pass : kPasses) {
    pass.run(program);
    report(program, options, pass.name);
  }
  restore_output_layouts(program);
}

#ifdef DYNRUN_CUDA
/// Whether products may be measured: on a device, for sizes that stay.
bool measures_products(const Program& program) {
  return program.device.is_cuda() && !program.pretended && program.options->shared == nullptr && !at::globalContext().deterministicAlgorithms() && runtime::cuda::can_measure();
}
#endif

/// Of a node that two calls took over, either would do the work.
void require_disjoint(const std::vector<LibraryKernel>& claims) {
  std::unordered_set<std::int32_t> claimed;
  for (const LibraryKernel& claim : claims) {
    for (std::int32_t node : claim.nodes) TORCH_CHECK(claimed.insert(node).second, "node ", node, " is taken over twice");
  }
}

/// `claims`: what a variant takes over.
std::vector<Unit> units_of(Program& program, std::vector<LibraryKernel> claims = {}) {
  if (!program.for_gpu()) claims = claim_library_kernels(program);
#ifdef DYNRUN_CUDA
  if (measures_products(program)) gpu::claim_products(program, claims);
#endif
  if (!program.pretended) claim_unsized_chains(program, claims);
  require_disjoint(claims);
  std::stable_sort(claims.begin(), claims.end(), [](const LibraryKernel& a, const LibraryKernel& b) { return a.nodes.back() < b.nodes.back(); });
  return schedule(program, std::move(claims));
}

/// The code that the graph's kernels would be on a GPU, whatever device it is for.
void dump_ptx([[maybe_unused]] const graph::Graph& graph, [[maybe_unused]] c10::ArrayRef<at::Tensor> examples, [[maybe_unused]] const Options& options) {
#ifdef DYNRUN_CUDA
  Options quiet = options;
  quiet.dump = nullptr;
  quiet.shared = nullptr;
  Program program = functionalise(graph, examples, quiet);
  program.device = c10::Device(c10::DeviceType::CUDA, 0);
  program.pretended = true;
  if (program.hidden_alias) return;
  run_passes(program, quiet);
  std::vector<Kernel> kernels;
  for (const Unit& unit : units_of(program)) {
    if (unit.is_kernel()) kernels.push_back(build_kernel(program, std::get<FusionGroup>(unit.what)));
  }
  gpu::dump_ptx(kernels, options.dump);
#endif
}

/// Of a trial, or of the variant that is wanted.
GpuLayout layout_of(GpuTrial trial, const gpu::Variant& variant) {
  if (trial == GpuTrial::kChannelsLast) return GpuLayout::kChannelsLast;
  return trial == GpuTrial::kBehindFirst ? GpuLayout::kBehindFirst : variant.layout;
}

Lowered compile(std::shared_ptr<const graph::Graph> graph, c10::ArrayRef<at::Tensor> examples, const Options& options, gpu::Variant variant = {}) {
  Program program = functionalise(*graph, examples, options);
  program.device = device_of(*graph);
  program.layout = layout_of(options.gpu_trial, variant);
  if (program.hidden_alias) {
    if (options.dump) options.dump("graph is not compiled", "a result shares memory with another value as no view tells\n");
    return {runtime::make_replayer(graph), {}};
  }
  run_passes(program, options);
  if (variant.odd_linear == gpu::OddLinear::kTwoParts && !align_linear(program)) return {};
#ifdef DYNRUN_CUDA
  if (measures_products(program)) {
    gpu::split_biases(program);
    report(program, options, "split_biases");
  }
#endif
  std::vector<LibraryKernel> claims;
#ifdef DYNRUN_CUDA
  if (variant.odd_linear == gpu::OddLinear::kRowsApart && !gpu::claim_rows_apart(program, claims)) return {};
#endif
  std::vector<Unit> units = units_of(program, std::move(claims));
  Lowered lowered;
  if (options.dump && options.wants_ptx) dump_ptx(*graph, examples, options);
  lowered.executable = build_executable(program, std::move(units), std::move(graph));
  lowered.folded_inputs = folded_inputs(program);
  lowered.repeatable = program.is_repeatable();
  lowered.guessed = has_guessed();
  return lowered;
}

/// In the fastest of the ways there are for its device.
Lowered compile_fastest(const std::shared_ptr<const graph::Graph>& graph, c10::ArrayRef<at::Tensor> examples, const Options& options) {
#ifdef DYNRUN_CUDA
  if (device_of(*graph).is_cuda()) {
    return gpu::compile_fastest(*graph, device_of(*graph).index(), examples, options, [&](gpu::Variant variant) { return compile(graph, examples, options, variant); });
  }
#endif
  return compile(graph, examples, options);
}

/// What comes before the first gradient is compiled by itself.
Lowered lower_before_gradients(std::shared_ptr<const graph::Graph> graph, c10::ArrayRef<at::Tensor> examples, const Options& options) {
  const std::vector<GraphPart> parts = split_before_gradients(*graph);
  if (parts.empty()) return {runtime::make_replayer(graph), {}};
  PartsLowering lowering(*graph, parts, examples, options);
  if (must_replay(*parts[0], lowering.examples_of(*parts[0]), options)) return {runtime::make_replayer(graph), {}};
  lowering.compile();
  lowering.replay();
  return lowering.join();
}

/// Views whose place moves are taken of the inputs first; what is left takes them as inputs.
Lowered lower_behind_views(const graph::Graph& graph, const std::vector<GraphPart>& parts, c10::ArrayRef<at::Tensor> examples, const Options& options) {
  PartsLowering lowering(graph, parts, examples, options);
  lowering.replay();
  lowering.run_on_examples();
  if (parts.size() > 1) lowering.compile();
  return lowering.join();
}

/// For each GPU by itself.
Lowered lower_at_devices(const graph::Graph& graph, const std::vector<GraphPart>& parts, c10::ArrayRef<at::Tensor> examples, const Options& options) {
  Options inner = options;
  inner.shared = nullptr, inner.check = nullptr, inner.guess = false;
  PartsLowering lowering(graph, parts, examples, inner);
  for (std::size_t i = 0; i < parts.size(); i++) lowering.compile();
  return lowering.join();
}

}  // namespace

Lowered lower(std::shared_ptr<const graph::Graph> graph, c10::ArrayRef<at::Tensor> examples, const Options& options) {
  if (const std::vector<GraphPart> parts = split_at_devices(*graph); !parts.empty()) return lower_at_devices(*graph, parts, examples, options);
  if (must_replay(*graph, examples, options)) return lower_before_gradients(graph, examples, options);
  if (const std::vector<GraphPart> parts = split_behind_moving_views(*graph, examples); !parts.empty()) return lower_behind_views(*graph, parts, examples, options);
  auto recorded = std::exchange(graph, copy_moving_views(graph));
  if (!graph) return {runtime::make_replayer(recorded), {}};
  if (options.shared != nullptr) options.shared->start(options.contents, examples, *recorded);
#ifdef NDEBUG
  try {
    return compile_fastest(graph, examples, options);
  } catch (const std::exception& error) {
    // Our bug, and no reason to fail the program: libtorch's operators give the same result.
    if (options.dump) options.dump("graph lowering failed", error.what());
    return {runtime::make_replayer(graph), {}};
  }
#else
  return compile_fastest(graph, examples, options);
#endif
}

}  // namespace dynrun::lowering
