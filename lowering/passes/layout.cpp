// choose_layouts: activations between convolutions become channels-last.
//
// A value becomes channels-last when a convolution that is fastest so makes it, or when a function of one element, a pooling or
// a concatenation makes it from values that are. Only inner values change: outputs, views and what has views keep
// eager's strides, and whoever makes or reads those converts in its own pass over the data.

#include "lowering/extern/arguments.h"
#include "lowering/extern/candidates.h"
#include "lowering/extern/convolution_call.h"
#include "lowering/extern/epilogue.h"
#include "lowering/extern/library_kernel.h"

#include <c10/util/strides.h>

#include <unordered_set>

namespace dynrun::lowering {
namespace {

/// Elementwise operators, besides the epilogues: the same function of each element whatever the layout.
const std::unordered_set<std::string>& elementwise() {
  static const std::unordered_set<std::string> names = {
      "aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor", "aten::add.Scalar", "aten::mul.Scalar",
      "aten::sub.Scalar", "aten::div.Scalar", "aten::neg",        "aten::abs",        "aten::exp",        "aten::sqrt",
      "aten::rsqrt",      "aten::maximum",    "aten::minimum",    "aten::batch_norm", "aten::elu",        "aten::mish",
      "aten::softplus",   "aten::clamp_min",  "aten::clamp_max",
  };
  return names;
}

const std::unordered_set<std::string>& poolings() {
  static const std::unordered_set<std::string> names = {"aten::max_pool2d", "aten::avg_pool2d", "aten::adaptive_avg_pool2d"};
  return names;
}

class LayoutChooser {
 public:
  explicit LayoutChooser(Program& program) : program_(program), uses_(program) {}

  void run() {
    if (program_.for_gpu() && program_.layout == GpuLayout::kAsIs) return;
    for (std::size_t index = 0; index < program_.graph.nodes.size(); ++index) {
      const Node& node = program_.graph.nodes[index];
      if (node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) continue;
      if (program_.has_effect(static_cast<std::int32_t>(index)) || program_.touches_unsized(static_cast<std::int32_t>(index)) || node.mode.autocast || !is_free(node.outputs[0])) continue;
      if (wants_channels_last(node)) make_channels_last(node.outputs[0]);
    }
  }

 private:
  /// A float activation of four dimensions that nobody outside sees.
  bool is_free(ValueId id) const {
    if (!program_.graph.values[static_cast<std::size_t>(id)].is_tensor() || program_.is_view(id)) return false;
    if (program_.graph.type_of(id).unsized || program_.graph.type_of(id).sizes.size() != 4 || !may_change(id)) return false;
    // Where both layouts are one, there is nothing to gain.
    const auto& sizes = program_.graph.type_of(id).sizes;
    if (same_layout(sizes, channels_last_strides(sizes), c10::contiguous_strides(sizes))) return false;
    return !uses_.is_output(id) && !uses_.has_views(id) && !is_bound(id);
  }

  /// On a CPU the library's channels-last kernels are for float32.
  bool may_change(ValueId id) const {
    return !program_.for_gpu() ? is_plain_float(program_, id) : c10::isFloatingType(program_.graph.type_of(id).dtype);
  }

  /// Written, or read by what follows the memory's order: random numbers are drawn in it, operators from outside may look at it,
  /// the strides of results of unknown sizes may follow it.
  bool is_bound(ValueId id) const {
    for (std::int32_t reader : uses_.readers(id)) {
      if (program_.writes(reader) || program_.has_effect(reader) || program_.touches_unsized(reader)) return true;
    }
    return false;
  }

  bool wants_channels_last(const Node& node) const {
    const std::string name = node.op_name();
    if (program_.for_gpu() && is_convolution(node)) return !stays_as_it_is(node);
    if (auto call = match_convolution(program_, node)) return prefers_channels_last(program_, *call);
    if (name == "aten::cat") return concatenates_channels_last(node);
    if (poolings().count(name)) return is_channels_last_activation(node.arguments[0]) || leads_to_convolution(node);
    if (!elementwise().count(name) && !match_epilogue(node)) return false;
    if (leads_to_convolution(node)) return true;
    // The layout of the full-size operands decides; smaller ones are broadcast.
    bool any = false;
    for (const Argument& argument : node.arguments) {
      if (!argument.is_value() || !program_.graph.values[static_cast<std::size_t>(argument.value())].is_tensor()) continue;
      if (program_.graph.type_of(argument.value()).sizes != program_.graph.type_of(node.outputs[0]).sizes) continue;
      any = any || is_channels_last_activation(argument);
    }
    return any;
  }

  static bool is_convolution(const Node& node) { return node.op_name() == "aten::conv2d" || node.op_name() == "aten::conv2d.padding"; }

  bool stays_as_it_is(const Node& node) const { return program_.layout == GpuLayout::kBehindFirst && reads_few_channels(program_.graph, node); }

  /// Behind a convolution that gives another layout: what the next one reads is written as that wants it.
  bool leads_to_convolution(const Node& node) const {
    if (!program_.for_gpu() || program_.layout != GpuLayout::kBehindFirst) return false;
    const auto& readers = uses_.readers(node.outputs[0]);
    return std::any_of(readers.begin(), readers.end(), [&](std::int32_t reader) {
      const Node& one = program_.graph.nodes[static_cast<std::size_t>(reader)];
      return is_convolution(one) && !stays_as_it_is(one);
    });
  }

  bool concatenates_channels_last(const Node& node) const {
    if (!node.arguments[0].is_list()) return false;
    for (const Argument& item : node.arguments[0].items()) {
      if (!is_channels_last_activation(item)) return false;
    }
    return true;
  }

  bool is_channels_last_activation(const Argument& argument) const {
    if (!argument.is_value() || !program_.graph.values[static_cast<std::size_t>(argument.value())].is_tensor()) return false;
    const TensorType& type = program_.graph.type_of(argument.value());
    return is_channels_last(type) && !type.is_contiguous();
  }

  void make_channels_last(ValueId id) {
    auto& type = std::get<TensorType>(program_.graph.values[static_cast<std::size_t>(id)].type);
    type.strides = channels_last_strides(type.sizes);
  }

  Program& program_;
  Uses uses_;
};

}  // namespace

void choose_layouts(Program& program) {
  start_measuring(program.options->shared == nullptr ? Measuring::kExactly : program.options->guess ? Measuring::kGuessing : Measuring::kRoughly);
  keep_freed_memory();
  LayoutChooser(program).run();
  return_free_memory();
}

}  // namespace dynrun::lowering
