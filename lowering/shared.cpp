#include "lowering/shared.h"

#include "graph/visit.h"

namespace dynrun::lowering {

std::vector<std::uint64_t> Shared::steady(std::vector<std::uint64_t> contents) {
  constexpr int kMostChanges = 2;
  changes_.resize(contents.size(), 0);
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (i < seen_.size() && seen_[i] != contents[i]) ++changes_[i];
  }
  seen_ = contents;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    if (changes_[i] >= kMostChanges) contents[i] = 0;
  }
  return contents;
}

namespace {

/// Whether the node has a number where the one of the open graph has a value.
bool settles_numbers(const graph::Node& node, const graph::Node& open) {
  auto settled = [](const auto& self, const graph::Argument& now, const graph::Argument& then) -> bool {
    if (then.is_value()) return !now.is_value();
    if (!then.is_list()) return false;
    if (!now.is_list() || now.items().size() != then.items().size()) return true;
    for (std::size_t i = 0; i < now.items().size(); ++i) {
      if (self(self, now.items()[i], then.items()[i])) return true;
    }
    return false;
  };
  if (node.op.operator_name() != open.op.operator_name() || node.arguments.size() != open.arguments.size()) return true;
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    if (settled(settled, node.arguments[i], open.arguments[i])) return true;
  }
  return false;
}

/// Results of nodes that take something which follows from parameters and open numbers, and what else these take.
std::set<graph::ValueId> varying_results(const graph::Graph& graph, const graph::Graph& open) {
  std::map<graph::ValueId, const graph::Node*> known;
  for (const graph::Node& node : open.nodes) {
    for (graph::ValueId id : node.outputs) known.emplace(id, &node);
  }
  std::set<graph::ValueId> activations, varying, results;
  for (const graph::Input& input : graph.inputs) {
    if (input.kind == graph::InputKind::kActivation) activations.insert(input.value);
  }
  for (const graph::Node& node : graph.nodes) {
    bool moves = false, varies = false;
    graph::visit_values(node, [&](graph::ValueId id) { moves = moves || activations.count(id) != 0, varies = varies || varying.count(id) != 0; });
    const auto then = node.outputs.empty() ? known.end() : known.find(node.outputs[0]);
    const bool settles = then == known.end() || settles_numbers(node, *then->second);
    for (graph::ValueId id : node.outputs) {
      if (moves) activations.insert(id);
      else if (varies || settles) varying.insert(id);
      if (moves && varies) results.insert(id);
    }
    if (moves && varies) graph::visit_values(node, [&](graph::ValueId id) { results.insert(id); });
  }
  return results;
}

}  // namespace

void Shared::start(std::vector<std::uint64_t> contents, c10::ArrayRef<at::Tensor> examples, const graph::Graph& graph) {
  if (contents != contents_) {
    constants_.clear();
    storages_.clear();
    for (std::size_t i = 0; i < contents.size(); ++i) {
      if (contents[i] == 0) continue;
      storages_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(examples[i].storage().unsafeGetStorageImpl()));
    }
    contents_ = std::move(contents);
  }
  values_ = graph.values.size();
  varying_ = open_ ? varying_results(graph, *open_) : std::set<graph::ValueId>();
  kernels_.start();
}

at::Tensor Shared::constant(graph::ValueId value, const std::string& form, const std::function<at::Tensor()>& make) {
  // Values that a pass adds are numbered as they come: the same number may be another value at other sizes.
  if (static_cast<std::size_t>(value) >= values_ || varying_.count(value) != 0) return make();
  auto known = constants_.find({value, form});
  if (known == constants_.end()) known = constants_.emplace(std::pair(value, form), make()).first;
  return known->second;
}

at::Tensor Shared::known_constant(graph::ValueId value, const std::string& form) const {
  const auto known = constants_.find({value, form});
  return known == constants_.end() || varying_.count(value) != 0 ? at::Tensor() : known->second;
}

}  // namespace dynrun::lowering
