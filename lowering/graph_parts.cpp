#include "lowering/graph_parts.h"

#include "graph/visit.h"

#include <algorithm>
#include <map>
#include <set>

namespace dynrun::lowering {
namespace {

using graph::Graph;
using graph::Node;
using graph::ValueId;

/// The part of a graph that has these nodes. `wanted`: what is named behind it.
GraphPart make_part(const Graph& graph, std::vector<Node> nodes, const std::set<ValueId>& wanted) {
  auto part = std::make_shared<Graph>(graph);
  part->nodes = std::move(nodes);
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

std::vector<GraphPart> make_parts(const Graph& graph, const std::vector<std::size_t>& part_of) {
  std::vector<std::vector<Node>> nodes(*std::max_element(part_of.begin(), part_of.end()) + 1);
  for (std::size_t i = 0; i < graph.nodes.size(); i++) nodes[part_of[i]].push_back(graph.nodes[i]);
  std::vector<GraphPart> parts(nodes.size());
  std::set<ValueId> wanted(graph.outputs.begin(), graph.outputs.end());
  for (std::size_t i = parts.size(); i-- > 0;) {
    parts[i] = make_part(graph, std::move(nodes[i]), wanted);
    for (const graph::Input& input : parts[i]->inputs) wanted.insert(input.value);
  }
  return parts;
}

std::unique_ptr<runtime::Executable> join_parts(const Graph& graph, const std::vector<GraphPart>& parts, std::vector<std::unique_ptr<runtime::Executable>> executables) {
  return std::make_unique<JoinedParts>(graph, parts, std::move(executables));
}

}  // namespace dynrun::lowering
