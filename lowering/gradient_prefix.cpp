#include "lowering/gradient_prefix.h"

#include "graph/visit.h"

#include <algorithm>
#include <set>

namespace dynrun::lowering {
namespace {

using graph::ValueId;

constexpr std::size_t kFewestNodes = 3;

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

class SplitExecutable final : public runtime::Executable {
 public:
  SplitExecutable(std::vector<std::size_t> first_inputs, std::unique_ptr<Executable> first, std::unique_ptr<Executable> rest)
      : first_inputs_(std::move(first_inputs)), first_(std::move(first)), rest_(std::move(rest)) {}

  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs) override {
    std::vector<at::Tensor> all = inputs.vec(), taken;
    for (std::size_t index : first_inputs_) taken.push_back(inputs[index]);
    for (at::Tensor& made : first_->run(taken)) all.push_back(std::move(made));
    return rest_->run(all);
  }
  int kernel_count() const override { return first_->kernel_count() + rest_->kernel_count(); }
  int extern_count() const override { return first_->extern_count() + rest_->extern_count(); }

 private:
  std::vector<std::size_t> first_inputs_;
  std::unique_ptr<Executable> first_, rest_;
};

}  // namespace

std::optional<Split> split_before_gradients(const graph::Graph& graph) {
  auto cut = std::find_if(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return needs_gradients(graph, node); });
  if (cut - graph.nodes.begin() < static_cast<std::ptrdiff_t>(kFewestNodes) || cut == graph.nodes.end()) return std::nullopt;
  Split split{std::make_shared<graph::Graph>(graph), std::make_shared<graph::Graph>(graph), {}};
  split.first->nodes.assign(graph.nodes.begin(), cut);
  split.rest->nodes.assign(cut, graph.nodes.end());
  std::set<ValueId> used, made, views, wanted(graph.outputs.begin(), graph.outputs.end());
  for (const graph::Node& node : split.first->nodes) {
    if (node.op.schema().is_mutable()) return std::nullopt;
    visit_values(node, [&](ValueId id) { used.insert(id); });
    (returns_alias(node) ? views : made).insert(node.outputs.begin(), node.outputs.end());
  }
  for (const graph::Node& node : split.rest->nodes) visit_values(node, [&](ValueId id) { wanted.insert(id); });

  split.first->inputs.clear();
  for (std::size_t i = 0; i < graph.inputs.size(); i++) {
    if (used.count(graph.inputs[i].value) == 0) continue;
    split.first->inputs.push_back(graph.inputs[i]);
    split.first_inputs.push_back(i);
  }
  split.first->outputs.clear();
  for (ValueId id : wanted) {
    if (id == graph::kNoValue) continue;
    if (views.count(id)) return std::nullopt;
    if (made.count(id) == 0) continue;
    split.first->outputs.push_back(id);
    split.rest->inputs.push_back({id, graph::InputKind::kActivation});
  }
  // What the first part does not know says nothing about it.
  for (std::size_t i = 0; i < graph.values.size(); i++) {
    auto id = static_cast<ValueId>(i);
    if (used.count(id) == 0 && made.count(id) == 0 && views.count(id) == 0) split.first->values[i].type = graph::TensorType{};
  }
  return split;
}

std::unique_ptr<runtime::Executable> make_split(const Split& split, std::unique_ptr<runtime::Executable> first,
                                                std::unique_ptr<runtime::Executable> rest) {
  return std::make_unique<SplitExecutable>(split.first_inputs, std::move(first), std::move(rest));
}

}  // namespace dynrun::lowering
