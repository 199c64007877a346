#pragma once
// The form between a recorded graph and its steps: the graph after functionalise, with what is known of its values.
//
// Nodes are still ATen operators, in an order that is right to run. View operators are gone: a value that is a view is an
// entry in `views`. In-place operators are gone where that is provable; those that stay are `writes(node)` and nothing that
// reads the written buffer may move across them. A value's TensorType is the layout of its buffer, by contract: whoever
// makes it writes exactly these strides, whoever reads it may rely on them.

#include "graph/graph.h"
#include "lowering/lower.h"
#include "runtime/plan.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace dynrun::lowering {

/// What autograd knows of a view that a program gets hold of: under which modes it was made, and of what.
struct ViewOrigin {
  std::optional<graph::Mode> mode;  // of the operators that made it, behind a `detach`
  bool mixed = false;               // they had several
  bool several = false;             // one of them gave several views at once while gradients were enabled
  runtime::Detach detach = runtime::Detach::kNone;
};

/// A value that shares its root's buffer; its own TensorType gives sizes and strides, `offset` (elements) is from the root's
/// first.
struct View {
  graph::ValueId root = graph::kNoValue;
  std::int64_t offset = 0;
  ViewOrigin origin;
};

/// What convolutions give on a GPU: what eager's do; channels last; the same, but for those that read few channels, as a model's first one
/// does: libraries have other kernels for these.
enum class GpuLayout : std::uint8_t { kAsIs, kChannelsLast, kBehindFirst };

struct Program {
  graph::Graph graph;
  std::unordered_map<graph::ValueId, View> views;            // the root is never itself a view
  std::unordered_map<graph::ValueId, at::Tensor> constants;  // computed at compile time and kept by the executable
  std::vector<at::Tensor> examples;                          // one an input; contents of activations are not to be read
  std::vector<graph::TensorType> output_types;  // what eager gave: a pass may change an inner value's strides, never these
  std::vector<bool> folded;                     // one an input: its content was read at compile time
  const Options* options = nullptr;
  graph::Mode mode;           // that handed-out views are made under
  c10::Device device = c10::kCPU;  // where kernels run
  bool pretended = false;          // the tensors lie on another: only the kernels' code is wanted
  GpuLayout layout = GpuLayout::kAsIs;  // what a GPU's convolutions are to give
  bool hidden_alias = false;  // a result shares memory with another value as no view tells: of another dtype, conjugated, unknown

  /// Whether the rules and passes for a GPU hold.
  bool for_gpu() const { return !device.is_cpu() || (options != nullptr && options->gpu_trial != GpuTrial::kNone); }
  graph::ValueId root(graph::ValueId id) const;
  bool is_view(graph::ValueId id) const { return views.count(id) != 0; }

  /// The tensor behind `id` when its content is known at compile time: a constant, or a parameter when folding is on; views of
  /// these too. Null otherwise. Reading its *content* demands `mark_folded(id)`.
  std::optional<at::Tensor> known(graph::ValueId id) const;
  void mark_folded(graph::ValueId id);
  /// A new value whose tensor is computed now. Never pass a parameter itself: the executable would keep it alive.
  graph::ValueId add_constant(at::Tensor tensor, std::string name);
  /// A new value without a producer yet.
  graph::ValueId add_value(graph::TensorType type, std::string name);

  /// True for a node that writes one of its arguments.
  bool writes(std::int32_t node) const;
  /// True for a node that may not be removed, doubled or moved: it writes, draws random numbers, or is not known to be pure.
  bool has_effect(std::int32_t node) const;
  /// True for a value on another device than the kernels': a number of a tensor, a copy on the CPU.
  bool is_elsewhere(graph::ValueId id) const;
  /// True for a node that reads or makes a tensor whose sizes depend on data, or one elsewhere: libtorch's own operator runs it, on
  /// what is there.
  bool touches_unsized(std::int32_t node) const;
  /// Whether a run is the same work each time: nothing is drawn, nothing from outside written, no size and no step hangs on data.
  bool is_repeatable() const;
  /// True for a node whose only effect is to write what the graph itself has made.
  bool writes_own(std::int32_t node) const;
  /// Whether a node makes the value, in memory of its own.
  bool is_made_here(graph::ValueId id) const;
  /// True when node `from` may run at the place of node `to` (> from): no node between writes a buffer.
  bool can_sink(std::int32_t from, std::int32_t to) const;
};

/// Of a convolution: whether it reads so few channels that a library's kernels for channels-last have to pad them.
bool reads_few_channels(const graph::Graph& graph, const graph::Node& convolution);
/// As for a graph; views must have a root that is no view, constants the type of their value.
std::optional<std::string> verify(const Program& program);
/// The graph's text, with lines "view %a: float32[2]{4} = %root + 3" and "constant %w: float32[8]" before it.
std::string print(const Program& program);

/// Who makes and reads each value; views count as reads of their root too. Recompute after a pass changed the graph.
struct Uses {
  explicit Uses(const Program& program);
  std::int32_t producer(graph::ValueId id) const { return producer_[static_cast<std::size_t>(id)]; }  // -1: input or constant
  /// Node indices that read `id` itself, ascending, once each.
  const std::vector<std::int32_t>& readers(graph::ValueId id) const { return readers_[static_cast<std::size_t>(id)]; }
  /// True when the one reader of `id` is `node`, it has no views and is not handed out: it may vanish inside a fused call.
  bool only_reader(graph::ValueId id, std::int32_t node) const;
  bool is_output(graph::ValueId id) const { return is_output_[static_cast<std::size_t>(id)]; }
  bool has_views(graph::ValueId id) const { return has_views_[static_cast<std::size_t>(id)]; }

 private:
  std::vector<std::int32_t> producer_;
  std::vector<std::vector<std::int32_t>> readers_;
  std::vector<bool> is_output_, has_views_;
};

}  // namespace dynrun::lowering
