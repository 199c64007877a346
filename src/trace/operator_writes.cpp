#include "trace/operator_recorder.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "graph/writes.h"
#include "guards/silent_writes.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <unordered_set>

// What the operators of a recording write, and what they only read.

namespace dynrun::trace {

bool OperatorRecorder::writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first,
                              const std::unordered_set<c10::StorageImpl*>& storages) const {
  bool hit = false;
  graph::visit_written(op, stack, first, [&](const at::Tensor& tensor) {
    hit = hit || (tensor.defined() && tensor.has_storage() && storages.count(tensor.storage().unsafeGetStorageImpl()) != 0);
  });
  return hit;
}

void OperatorRecorder::freeze(const at::Tensor& tensor) {
  if (tensor.has_storage()) frozen_.insert(tensor.storage().unsafeGetStorageImpl());
}

void OperatorRecorder::note_writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  const auto& formals = op.schema().arguments();
  wrote_ = wrote_ || std::any_of(formals.begin(), formals.end(), graph::is_written);
  graph::visit_written(op, stack, first, [&](const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    c10::StorageImpl* storage = tensor.storage().unsafeGetStorageImpl();
    if (outside_storages_.count(storage) == 0) {
      written_inside_.insert(storage);
      return;
    }
    wrote_outside_ = true;
    written_at_.try_emplace(storage, graph_->nodes.size());
  });
}

/// Gives new memory, and writes none: neither by its schema nor, as running statistics are, in silence.
static bool only_reads(const graph::Node& node) {
  static const std::unordered_set<std::string_view> names = {"linear", "matmul", "mm", "addmm", "bmm", "conv1d", "conv2d", "embedding", "layer_norm"};
  const std::string_view name = graph::base_name(node.op);
  const auto& formals = node.op.schema().arguments();
  return (names.count(name) != 0 || graph::is_elementwise(name)) && std::none_of(formals.begin(), formals.end(), [](const c10::Argument& formal) { return formal.alias_info() != nullptr; });
}

std::vector<bool> OperatorRecorder::only_read(const std::vector<at::Tensor>& inputs) const {
  std::unordered_set<graph::ValueId> others;
  for (const graph::Node& node : graph_->nodes) {
    if (!only_reads(node)) graph::visit_values(node, [&](graph::ValueId id) { others.insert(id); });
  }
  std::vector<bool> only;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    const at::Tensor& input = inputs[i];
    only.push_back(others.count(graph_->inputs[i].value) == 0 && input.has_storage() && written_at_.count(input.storage().unsafeGetStorageImpl()) == 0);
  }
  return only;
}

/// The running statistics that a node writes, if it is a batch norm in training mode.
static void visit_statistics(const graph::Node& node, const std::function<void(graph::ValueId)>& visit) {
  const auto& formals = node.op.schema().arguments();
  const std::string_view name = graph::base_name(node.op);
  for (std::size_t i = 0; i < formals.size() && i < node.arguments.size(); i++) {
    const graph::Argument& argument = node.arguments[i];
    if (guards::is_training_flag(formals[i]) && argument.is_constant() && argument.constant().isBool() && !argument.constant().toBool()) return;
  }
  for (std::size_t i = 0; i < formals.size() && i < node.arguments.size(); i++) {
    if (guards::is_running_statistic(name, formals[i]) && node.arguments[i].is_value()) visit(node.arguments[i].value());
  }
}

std::vector<std::size_t> OperatorRecorder::written(const std::vector<at::Tensor>& inputs) const {
  std::unordered_set<graph::ValueId> statistics;
  for (const graph::Node& node : graph_->nodes) visit_statistics(node, [&](graph::ValueId id) { statistics.insert(id); });
  std::vector<std::size_t> written;
  for (std::size_t i = 0; i < inputs.size(); i++) {
    const bool in_place = inputs[i].has_storage() && written_at_.count(inputs[i].storage().unsafeGetStorageImpl()) != 0;
    if (in_place || statistics.count(graph_->inputs[i].value) != 0) written.push_back(i);
  }
  return written;
}

}  // namespace dynrun::trace
