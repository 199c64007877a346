#include "lowering/moving_views.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "graph/aliases.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>

namespace dynrun::lowering {
namespace {

using graph::Node;
using graph::ValueId;

/// Gives a view of its first argument, whatever the numbers among the others are.
bool is_liftable(const Node& node) {
  static const std::set<std::string_view> names = {"slice", "narrow", "select", "unsqueeze", "squeeze", "transpose", "permute", "expand", "view"};
  return names.count(graph::base_name(node.op)) != 0 && !node.op.schema().is_mutable() && node.outputs.size() == 1 && node.arguments[0].is_value();
}

/// The views of inputs that may be taken first: those that move, and those that such are taken of.
class MovingViews {
 public:
  explicit MovingViews(const graph::Graph& graph) : graph_(graph) {
    for (const graph::Input& input : graph.inputs) root_[input.value] = input.value;
    for (const Node& node : graph.nodes) {
      if (!is_liftable(node) || !takes_known(node)) continue;
      root_[node.outputs[0]] = root_.at(node.arguments[0].value());
      if (is_moving_view(node)) lift(node);
    }
  }

  bool empty() const { return lifted_.empty(); }
  bool has(const Node& node) const { return lifted_.count(&node) != 0; }
  bool gives(ValueId id) const { return given_.count(id) != 0; }
  ValueId root(ValueId id) const { return root_.at(id); }

 private:
  bool takes_known(const Node& node) const {
    bool known = true;
    graph::visit_values(node, [&](ValueId id) { known = known && root_.count(id) != 0; });
    return known;
  }

  void lift(const Node& node) {
    lifted_.insert(&node);
    given_.insert(node.outputs[0]);
    const ValueId of = node.arguments[0].value();
    for (const Node& maker : graph_.nodes) {
      if (std::find(maker.outputs.begin(), maker.outputs.end(), of) != maker.outputs.end() && is_liftable(maker) && !has(maker)) return lift(maker);
    }
  }

  const graph::Graph& graph_;
  std::map<ValueId, ValueId> root_;  // of views of inputs, and inputs: which input
  std::set<const Node*> lifted_;
  std::set<ValueId> given_;
};

/// The values that the rest of the graph names.
std::set<ValueId> named_by_rest(const graph::Graph& graph, const MovingViews& views) {
  std::set<ValueId> named(graph.outputs.begin(), graph.outputs.end());
  for (const Node& node : graph.nodes) {
    if (!views.has(node)) graph::visit_values(node, [&](ValueId id) { named.insert(id); });
  }
  return named;
}

/// Whether the memory of each view that is written has that one name only in what is left.
bool have_one_name(const graph::Graph& graph, c10::ArrayRef<at::Tensor> examples, const MovingViews& views, const std::set<ValueId>& named) {
  const graph::Aliases aliases(graph);
  auto is_written = [&](std::size_t input) {  // or what is in the same memory
    for (std::size_t i = 0; i < examples.size(); i++) {
      if (aliases.is_written(graph.inputs[i].value) && examples[i].is_alias_of(examples[input])) return true;
    }
    return false;
  };
  std::set<ValueId> roots, written;
  for (std::size_t i = 0; i < examples.size(); i++) {
    if (is_written(i)) written.insert(graph.inputs[i].value);
  }
  for (ValueId id : named) {
    if (!views.gives(id) || written.count(views.root(id)) == 0) continue;
    if (!roots.insert(views.root(id)).second || named.count(views.root(id)) != 0) return false;
  }
  for (std::size_t i = 0; i < examples.size(); i++) {
    if (roots.count(graph.inputs[i].value) == 0) continue;
    for (std::size_t k = 0; k < examples.size(); k++) {
      if (k != i && examples[k].is_alias_of(examples[i])) return false;
    }
  }
  return true;
}

}  // namespace

bool is_moving_view(const Node& node) {
  const std::string name = node.op_name();
  if (name == "aten::slice.Tensor") return node.arguments[1].is_constant() && (node.arguments[2].is_value() || node.arguments[3].is_value());
  return (name == "aten::select.int" || name == "aten::narrow") && node.arguments[2].is_value();
}

std::vector<GraphPart> split_behind_moving_views(const graph::Graph& graph, c10::ArrayRef<at::Tensor> examples) {
  const MovingViews views(graph);
  const bool reshapes = std::any_of(graph.nodes.begin(), graph.nodes.end(), [](const Node& node) { return node.op.hasTag(at::Tag::inplace_view); });
  if (views.empty() || reshapes || !have_one_name(graph, examples, views, named_by_rest(graph, views))) return {};
  std::vector<std::size_t> part_of;
  for (const Node& node : graph.nodes) part_of.push_back(views.has(node) ? 0 : 1);
  return make_parts(graph, part_of);
}

}  // namespace dynrun::lowering
