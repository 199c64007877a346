#include "lowering/device_parts.h"

#include "graph/aliases.h"
#include "graph/visit.h"

#include <algorithm>
#include <set>

namespace dynrun::lowering {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

constexpr std::size_t kMostParts = 64;

using Devices = std::set<c10::DeviceIndex>;
constexpr c10::DeviceIndex kHost = -1;  // stands for the program, which looks at a value

/// Whether all memory is a GPU's or the CPU's, and each tensor keeps its sizes.
bool is_served(const Graph& graph) {
  auto served = [](const graph::Value& value) { return !value.is_tensor() || value.tensor().device.is_cpu() || value.tensor().device.is_cuda(); };
  auto reshapes = [](const Node& node) { return node.op.hasTag(at::Tag::inplace_view); };
  return std::all_of(graph.values.begin(), graph.values.end(), served) && std::none_of(graph.nodes.begin(), graph.nodes.end(), reshapes);
}

bool records_gradients(const Graph& graph) {
  auto requires_grad = [](const graph::Value& value) { return value.is_tensor() && value.tensor().requires_grad; };
  return graph.any_grad_mode() && std::any_of(graph.values.begin(), graph.values.end(), requires_grad);
}

/// The GPUs that a node touches. What lies on the CPU belongs to any part.
Devices devices_of(const Graph& graph, const Node& node) {
  Devices devices;
  auto note = [&](ValueId id) {
    const graph::Value& value = graph.values[static_cast<std::size_t>(id)];
    if (value.is_tensor() && value.tensor().device.is_cuda()) devices.insert(value.tensor().device.index());
  };
  graph::visit_values(node, note);
  for (ValueId id : node.outputs) {
    if (id != graph::kNoValue) note(id);
  }
  if (!devices.empty() && node.op_name() == "dynrun::require_truth") return {kHost};
  return devices;
}

/// Which part each node belongs to. A part is of one GPU, or of nodes that touch several each.
std::vector<std::size_t> parts_of_nodes(const Graph& graph) {
  std::vector<std::size_t> part_of;
  Devices part;
  std::size_t number = 0;
  for (const Node& node : graph.nodes) {
    const Devices devices = devices_of(graph, node);
    const bool fits = devices.empty() || part.empty() || part == devices || (part.size() > 1 && devices.size() > 1);
    if (!fits) number++;
    if (!fits || part.empty()) part = devices;
    part_of.push_back(number);
  }
  return part_of;
}

bool overlap(const std::set<ValueId>& a, const std::set<ValueId>& b) {
  return std::any_of(a.begin(), a.end(), [&](ValueId id) { return b.count(id) != 0; });
}

/// Whether what a part writes in place of its inputs has one name only there: parts are compiled without knowing of the others.
bool writes_under_one_name(const graph::Aliases& whole, const Graph& part) {
  const graph::Aliases inside(part);
  for (const graph::Input& written : part.inputs) {
    if (!inside.is_written(written.value)) continue;
    for (const graph::Input& other : part.inputs) {
      if (other.value != written.value && overlap(whole.roots(written.value), whole.roots(other.value))) return false;
    }
  }
  return true;
}

bool are_tensors(const Graph& part) {
  auto is_tensor = [&](ValueId id) { return part.values[static_cast<std::size_t>(id)].is_tensor(); };
  return std::all_of(part.outputs.begin(), part.outputs.end(), is_tensor);
}

}  // namespace

std::vector<GraphPart> split_at_devices(const Graph& graph) {
  const std::vector<std::size_t> part_of = parts_of_nodes(graph);
  if (part_of.empty() || part_of.back() == 0 || part_of.back() >= kMostParts || !is_served(graph) || records_gradients(graph)) return {};
  const graph::Aliases aliases(graph);
  std::vector<GraphPart> parts = make_parts(graph, part_of);
  auto stands_alone = [&](const GraphPart& part) { return are_tensors(*part) && writes_under_one_name(aliases, *part); };
  if (!std::all_of(parts.begin(), parts.end(), stands_alone)) parts.clear();
  return parts;
}

}  // namespace dynrun::lowering
