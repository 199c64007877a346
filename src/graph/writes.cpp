#include "graph/writes.h"

namespace dynrun::graph {

bool is_written(const c10::Argument& formal) { return formal.alias_info() != nullptr && formal.alias_info()->isWrite(); }

void visit_written(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first, const std::function<void(const at::Tensor&)>& visit) {
  const auto& formals = op.schema().arguments();
  for (std::size_t i = 0; i < formals.size(); i++) {
    if (!is_written(formals[i])) continue;
    const c10::IValue& value = stack[first + i];
    if (value.isTensor()) visit(value.toTensor());
    if (!value.isTensorList()) continue;
    for (const at::Tensor& tensor : value.toTensorVector()) visit(tensor);
  }
}

void collect_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) tensors.push_back(value.toTensor());
  if (!value.isList()) return;
  for (const c10::IValue& item : value.toListRef()) collect_tensors(item, tensors);
}

}  // namespace dynrun::graph
