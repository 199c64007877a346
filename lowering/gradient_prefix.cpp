#include "lowering/gradient_prefix.h"

#include "graph/visit.h"

#include <algorithm>
#include <set>

namespace dynrun::lowering {
namespace {

using graph::ValueId;

constexpr std::ptrdiff_t kFewestNodes = 3;

bool returns_alias(const graph::Node& node) {
  const auto& returns = node.op.schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& one) { return one.alias_info() != nullptr; });
}

bool needs_gradients(const graph::Graph& graph, const graph::Node& node) {
  bool needs = false;
  auto look = [&](ValueId id) {
    const graph::Value& value = graph.values[static_cast<std::size_t>(id)];
    needs = needs || (value.is_tensor() && value.tensor().requires_grad);
  };
  visit_values(node, look);
  for (ValueId id : node.outputs) {
    if (id != graph::kNoValue) look(id);
  }
  return needs;
}

}  // namespace

std::vector<GraphPart> split_before_gradients(const graph::Graph& graph) {
  const auto cut = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return needs_gradients(graph, node); });
  if (cut - graph.nodes.begin() < kFewestNodes || cut == graph.nodes.end()) return {};
  std::set<ValueId> views;
  for (auto node = graph.nodes.begin(); node != cut; ++node) {
    if (node->op.schema().is_mutable()) return {};
    if (returns_alias(*node)) views.insert(node->outputs.begin(), node->outputs.end());
  }
  std::vector<std::size_t> part_of(graph.nodes.size(), 1);
  std::fill_n(part_of.begin(), cut - graph.nodes.begin(), 0);
  std::vector<GraphPart> parts = make_parts(graph, part_of);
  auto is_view = [&](ValueId id) { return views.count(id) != 0; };
  if (std::any_of(parts[0]->outputs.begin(), parts[0]->outputs.end(), is_view)) return {};
  return parts;
}

}  // namespace dynrun::lowering
