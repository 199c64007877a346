#include "lowering/graph_parts.h"

#include "graph/aliases.h"
#include "graph/visit.h"

#include <algorithm>
#include <map>
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

bool needs_gradients(const Graph& graph) {
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

/// How many nodes each part has. A part is of one GPU, or of nodes that touch several each.
std::vector<std::size_t> lengths_of_parts(const Graph& graph) {
  std::vector<std::size_t> lengths(1, 0);
  Devices part;
  for (const Node& node : graph.nodes) {
    const Devices devices = devices_of(graph, node);
    const bool fits = devices.empty() || part.empty() || part == devices || (part.size() > 1 && devices.size() > 1);
    if (!fits) lengths.push_back(0);
    if (!fits || part.empty()) part = devices;
    lengths.back()++;
  }
  return lengths;
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

/// The part that consists of the nodes from `begin` to `end`. `wanted`: what is named behind it.
GraphPart make_part(const Graph& graph, std::size_t begin, std::size_t end, const std::set<ValueId>& wanted) {
  auto part = std::make_shared<Graph>(graph);
  part->nodes.assign(graph.nodes.begin() + static_cast<std::ptrdiff_t>(begin), graph.nodes.begin() + static_cast<std::ptrdiff_t>(end));
  part->inputs.clear();
  part->outputs.clear();
  std::set<ValueId> used, made;
  for (const Node& node : part->nodes) {
    graph::visit_values(node, [&](ValueId id) {
      if (made.count(id) == 0) used.insert(id);
    });
    for (ValueId id : node.outputs) {
      if (id != graph::kNoValue && used.count(id) == 0) made.insert(id);
    }
  }
  for (ValueId id : used) {
    auto known = std::find_if(graph.inputs.begin(), graph.inputs.end(), [&](const graph::Input& input) { return input.value == id; });
    part->inputs.push_back({id, known == graph.inputs.end() ? graph::InputKind::kActivation : known->kind});
  }
  for (ValueId id : made) {
    if (wanted.count(id)) part->outputs.push_back(id);
  }
  // What a part does not know says nothing about it.
  for (std::size_t i = 0; i < graph.values.size(); i++) {
    const auto id = static_cast<ValueId>(i);
    if (used.count(id) == 0 && made.count(id) == 0) part->values[i].type = graph::TensorType{};
  }
  return part;
}

bool are_tensors(const Graph& part) {
  auto is_tensor = [&](ValueId id) { return part.values[static_cast<std::size_t>(id)].is_tensor(); };
  return std::all_of(part.outputs.begin(), part.outputs.end(), is_tensor);
}

class JoinedParts final : public runtime::Executable {
 public:
  JoinedParts(const Graph& graph, const std::vector<GraphPart>& parts, std::vector<std::unique_ptr<Executable>> executables) {
    std::set<ValueId> needed(graph.outputs.begin(), graph.outputs.end());
    for (const graph::Input& input : graph.inputs) given_.push_back(slot_of(input.value));
    for (std::size_t i = 0; i < parts.size(); i++) {
      Stage stage{std::move(executables[i]), {}, {}, {}};
      for (const graph::Input& input : parts[i]->inputs) stage.takes.push_back(slot_of(input.value));
      for (ValueId id : parts[i]->outputs) stage.gives.push_back(slot_of(id));
      stages_.push_back(std::move(stage));
    }
    for (ValueId id : graph.outputs) outputs_.push_back(slot_of(id));
    for (std::size_t i = parts.size(); i-- > 0;) {
      for (const graph::Input& input : parts[i]->inputs) {
        if (needed.insert(input.value).second) stages_[i].last.push_back(slot_of(input.value));
      }
    }
  }

  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs) override {
    std::vector<at::Tensor> slots(slots_.size()), taken, outputs;
    for (std::size_t i = 0; i < inputs.size(); i++) slots[given_[i]] = inputs[i];
    for (const Stage& stage : stages_) {
      taken.clear();
      for (std::size_t slot : stage.takes) taken.push_back(slots[slot]);
      std::vector<at::Tensor> made = stage.executable->run(taken);
      for (std::size_t i = 0; i < made.size(); i++) slots[stage.gives[i]] = std::move(made[i]);
      for (std::size_t slot : stage.last) slots[slot].reset();
    }
    for (std::size_t slot : outputs_) outputs.push_back(slots[slot]);
    return outputs;
  }

  int kernel_count() const override { return count([](const Executable& part) { return part.kernel_count(); }); }
  int extern_count() const override { return count([](const Executable& part) { return part.extern_count(); }); }

 private:
  struct Stage {
    std::unique_ptr<Executable> executable;
    std::vector<std::size_t> takes, gives, last;  // slots; `last`: what no later stage takes
  };

  std::size_t slot_of(ValueId id) { return slots_.emplace(id, slots_.size()).first->second; }

  template <typename Of>
  int count(const Of& of) const {
    int sum = 0;
    for (const Stage& stage : stages_) sum += of(*stage.executable);
    return sum;
  }

  std::map<ValueId, std::size_t> slots_;
  std::vector<std::size_t> given_, outputs_;
  std::vector<Stage> stages_;
};

}  // namespace

std::vector<GraphPart> split_into_parts(const Graph& graph) {
  const std::vector<std::size_t> lengths = lengths_of_parts(graph);
  if (lengths.size() < 2 || lengths.size() > kMostParts || !is_served(graph) || needs_gradients(graph)) return {};
  const graph::Aliases aliases(graph);
  std::vector<GraphPart> parts;
  std::set<ValueId> wanted(graph.outputs.begin(), graph.outputs.end());
  std::size_t end = graph.nodes.size();
  for (std::size_t i = lengths.size(); i-- > 0; end -= lengths[i]) {
    parts.push_back(make_part(graph, end - lengths[i], end, wanted));
    if (!are_tensors(*parts.back()) || !writes_under_one_name(aliases, *parts.back())) return {};
    for (const graph::Input& input : parts.back()->inputs) wanted.insert(input.value);
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

std::unique_ptr<runtime::Executable> join_parts(const Graph& graph, const std::vector<GraphPart>& parts, std::vector<std::unique_ptr<runtime::Executable>> executables) {
  return std::make_unique<JoinedParts>(graph, parts, std::move(executables));
}

}  // namespace dynrun::lowering
