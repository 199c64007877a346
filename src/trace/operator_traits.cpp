#include "trace/operator_traits.h"

#include "graph/operators.h"
#include "graph/writes.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>

namespace dynrun::trace {

bool accumulates(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  if (!op.schema().is_mutable()) return false;
  const std::string_view name = graph::base_name(op);
  if (name == "scatter") return op.operator_name().overload_name.find("reduce") != std::string::npos;
  if (name != "index_put" && name != "put" && name != "_index_put_impl") return false;
  return stack.size() > first + 3 && stack[first + 3].isBool() && stack[first + 3].toBool();
}

bool is_of_constructor(const at::Tensor& data) { return !data.defined() || data.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() == nullptr; }

bool has_own_version(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> names = {"_unsafe_view", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk"};
  return names.count(graph::base_name(op)) != 0;
}

WrittenSizes::WrittenSizes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  if (!op.schema().is_mutable() || op.hasTag(at::Tag::inplace_view)) return;
  graph::visit_written(op, stack, first, [this](const at::Tensor& tensor) { add(tensor); });
}

bool WrittenSizes::changed() const {
  return std::any_of(before_.begin(), before_.end(), [](const auto& one) { return one.first.sizes() != c10::IntArrayRef(one.second); });
}

void WrittenSizes::add(const at::Tensor& tensor) {
  if (tensor.defined()) before_.emplace_back(tensor, tensor.sizes().vec());
}

}  // namespace dynrun::trace
