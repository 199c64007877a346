#include "runtime/undo_log.h"

#include "graph/operators.h"
#include "graph/visit.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

namespace dynrun::runtime {
namespace {

/// Writes that the schema is silent about: running statistics.
bool writes_silently(const graph::Node& node) {
  const std::string_view name = graph::base_name(node.op);
  return name.find("batch_norm") != std::string_view::npos || name.find("instance_norm") != std::string_view::npos;
}

bool takes_gradients(const graph::Graph& graph, const graph::Node& node) {
  bool any = false;
  auto look = [&](graph::ValueId id) { any = any || (id != graph::kNoValue && graph.values[static_cast<std::size_t>(id)].is_tensor() && graph.type_of(id).requires_grad); };
  graph::visit_values(node, look);
  std::for_each(node.outputs.begin(), node.outputs.end(), look);
  return any;
}

bool writes(const c10::Argument& formal) {
  return formal.alias_info() != nullptr && formal.alias_info()->isWrite();
}

}  // namespace

bool UndoLog::covers(const graph::Graph& graph) {
  return std::none_of(graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op.hasTag(at::Tag::inplace_view) || (node.mode.grad_enabled && takes_gradients(graph, node)); });
}

UndoLog::UndoLog(c10::ArrayRef<at::Tensor> inputs) {
  for (const at::Tensor& input : inputs) {
    if (input.defined() && input.has_storage()) outside_.insert(input.storage().unsafeGetStorageImpl());
  }
}

void UndoLog::before(const graph::Node& node, const torch::jit::Stack& stack) {
  const auto& formals = node.op.schema().arguments();
  const std::size_t first = stack.size() - node.arguments.size();
  const bool silently = writes_silently(node);
  for (std::size_t i = 0; i < node.arguments.size(); i++) {
    if (!silently && !writes(formals[i])) continue;
    const c10::IValue& argument = stack[first + i];
    if (argument.isTensor()) keep(argument.toTensor());
    if (!argument.isTensorList()) continue;
    for (const at::Tensor& tensor : argument.toTensorVector()) keep(tensor);
  }
}

void UndoLog::keep(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.has_storage() || outside_.count(tensor.storage().unsafeGetStorageImpl()) == 0) return;
  const at::AutoDispatchBelowADInplaceOrView below;
  const auto& counter = tensor.unsafeGetTensorImpl()->version_counter();
  written_.push_back({tensor, tensor.clone(), counter.enabled() ? std::optional(counter.current_version()) : std::nullopt});
}

void UndoLog::undo() {
  const at::AutoDispatchBelowADInplaceOrView below;
  const at::NoGradGuard no_grad;
  for (auto one = written_.rbegin(); one != written_.rend(); ++one) {
    one->tensor.copy_(one->content);
    c10::VariableVersion counter = one->tensor.unsafeGetTensorImpl()->version_counter();
    if (one->version) counter.set_version(*one->version);
  }
  written_.clear();
}

}  // namespace dynrun::runtime
