#include "trace/plan_layouts.h"

#include "graph/aliases.h"
#include "graph/operators.h"
#include "graph/visit.h"

#include <ATen/TensorUtils.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace dynrun::trace {

using graph::Node;
using graph::TensorType;
using graph::ValueId;

namespace {

using Names = std::unordered_set<std::string_view>;

bool copies_by_layout(const Node& node) {
  return graph::copies_by_layout(graph::base_name(node.op)) && node.outputs.size() == 1 && node.outputs[0] != graph::kNoValue && node.arguments[0].is_value();
}

/// `to(memory_format=...)` and the like copy what lies otherwise.
bool names_layout(const Node& node) {
  const auto& formals = node.op.schema().arguments();
  for (std::size_t i = 0; i < node.arguments.size(); i++) {
    if (formals[i].name() == "memory_format" && !(node.arguments[i].is_constant() && node.arguments[i].constant().isNone())) return true;
  }
  return false;
}

/// The tensor that they were given, where nothing is to do: the program can tell it from another.
bool may_give_itself(const Node& node) {
  static const Names names = {"contiguous", "to", "sum_to_size", "broadcast_tensors", "type_as"};
  return names.count(graph::base_name(node.op)) != 0;
}

/// Whether they share memory with their arguments is the same at all sizes.
bool is_alike_at_all_sizes(const Node& node) {
  static const Names names = {"type_as", "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "unflatten", "unfold", "as_strided", "meshgrid", "atleast_1d", "atleast_2d", "atleast_3d",
                              "tensor_split", "hsplit", "vsplit", "dsplit", "positive", "real", "imag", "conj", "resolve_conj", "resolve_neg", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk",
                              "_unsafe_view", "view_as_real", "view_as_complex", "pad", "constant_pad_nd"};
  if (graph::base_name(node.op) == "to") return !names_layout(node);
  return !graph::may_give_argument(node.op) || node.op.schema().is_mutable() || graph::is_view(graph::base_name(node.op)) || names.count(graph::base_name(node.op)) != 0;
}

bool gives_view(const Node& node, const TensorType& from, const TensorType& to) {
  if (graph::base_name(node.op) == "contiguous") return from.strides == to.strides;
  if (graph::base_name(node.op) == "ravel") return from.is_contiguous();
  return at::detail::computeStride(from.sizes, from.strides, c10::IntArrayRef(to.sizes)).has_value();
}

/// What is asked of a tensor in front of the dispatcher has the same answers for both.
bool lie_alike(const TensorType& now, const TensorType& recorded) {
  if (now.is_contiguous() != recorded.is_contiguous()) return false;
  return std::equal(now.sizes.begin(), now.sizes.end(), recorded.sizes.begin(), [](std::int64_t a, std::int64_t b) { return (a == 1) == (b == 1); });
}

bool have_as_many(const TensorType& now, const TensorType& recorded) {
  return std::equal(now.sizes.begin(), now.sizes.end(), recorded.sizes.begin(), recorded.sizes.end(), [](std::int64_t a, std::int64_t b) { return (a == 0) == (b == 0); });
}

bool is_open_to_all(const graph::Graph& graph) {
  return std::all_of(graph.nodes.begin(), graph.nodes.end(), [&](const Node& node) {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      if (id == graph::kNoValue || !graph.values[static_cast<std::size_t>(id)].is_tensor()) return true;
      const TensorType& type = graph.type_of(id);
      return !(type.requires_grad && node.mode.grad_enabled) && !type.unsized && !type.number && !type.lazy;
    });
  });
}

}  // namespace

PlanLayouts::PlanLayouts(const graph::Graph& graph, const std::unordered_set<ValueId>& asked, const std::unordered_set<ValueId>& unseen) : all_(!is_open_to_all(graph)), asked_(asked) {
  if (all_) return;
  const graph::Aliases aliases(graph);
  std::set<ValueId> told;  // memory that is handed out
  for (ValueId id : graph.outputs) told.insert(aliases.roots(id).begin(), aliases.roots(id).end());
  for (std::size_t i = 0; i < graph.nodes.size(); i++) {
    const Node& node = graph.nodes[i];
    if (is_alike_at_all_sizes(node)) continue;
    const bool tells = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) {
      if (id == graph::kNoValue) return false;
      return aliases.is_written(id) || std::any_of(aliases.roots(id).begin(), aliases.roots(id).end(), [&](ValueId root) { return told.count(root) != 0; });
    });
    const bool is_unseen = node.arguments[0].is_value() && unseen.count(node.arguments[0].value()) != 0;
    if (!tells && (is_unseen || !may_give_itself(node))) continue;
    if (!copies_by_layout(node)) graph::visit_values(node, [&](ValueId id) { asked_.insert(id); });
    else copies_.push_back(i);
  }
}

bool PlanLayouts::hold(const graph::Graph& graph, const Types& now) const {
  for (std::size_t i = 0; i < graph.values.size(); i++) {
    const auto id = static_cast<ValueId>(i);
    if (!graph.values[i].is_tensor() || graph.values[i].tensor().number || graph.values[i].tensor().unsized) continue;
    const TensorType type = now(id);
    if (!have_as_many(type, graph.type_of(id))) return false;
    if ((all_ || asked_.count(id) != 0) && !lie_alike(type, graph.type_of(id))) return false;
  }
  return std::all_of(copies_.begin(), copies_.end(), [&](std::size_t i) {
    const Node& node = graph.nodes[i];
    const ValueId from = node.arguments[0].value(), to = node.outputs[0];
    return gives_view(node, now(from), now(to)) == gives_view(node, graph.type_of(from), graph.type_of(to));
  });
}

}  // namespace dynrun::trace
