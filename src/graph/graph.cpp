#include "graph/graph.h"

#include "graph/text.h"

namespace dynrun::graph {

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

TensorType TensorType::of(const at::Tensor& tensor) {
  TensorType type;
  type.dtype = tensor.scalar_type();
  type.device = tensor.device();
  type.sizes = tensor.sizes().vec();
  if (tensor.layout() == c10::kStrided) type.strides = tensor.strides().vec();
  type.requires_grad = tensor.requires_grad();
  type.lazy = tensor.is_conj() || tensor.is_neg() || tensor._is_zerotensor();
  return type;
}

std::int64_t TensorType::element_count() const {
  std::int64_t count = 1;
  for (std::int64_t size : sizes) count *= size;
  return count;
}

bool TensorType::is_contiguous() const {
  if (strides.size() != sizes.size()) return false;
  std::int64_t step = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 0) return true;
    if (sizes[i] != 1 && strides[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

std::string Node::op_name() const {
  const c10::OperatorName& name = op.operator_name();
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

ValueId Graph::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size() - 1);
}

ValueId Graph::add_input(TensorType type, InputKind kind, std::string name) {
  ValueId id = add_value({std::move(type), std::move(name)});
  inputs.push_back({id, kind});
  return id;
}

bool Graph::any_grad_mode() const {
  return std::any_of(nodes.begin(), nodes.end(), [](const Node& node) { return node.mode.grad_enabled; });
}

}  // namespace dynrun::graph
