#include "lowering/extern/arguments.h"

#include <ATen/Functions.h>

namespace dynrun::lowering {

std::optional<ValueId> optional_tensor(const Program& program, const Argument& argument) {
  if (argument.is_constant() && argument.constant().isNone()) return graph::kNoValue;
  return tensor_argument(program, argument);
}

std::optional<ValueId> tensor_argument(const Program& program, const Argument& argument) {
  if (!argument.is_value() || argument.value() == graph::kNoValue) return std::nullopt;
  if (!program.graph.values[static_cast<std::size_t>(argument.value())].is_tensor()) return std::nullopt;
  return argument.value();
}

std::optional<std::int64_t> int_argument(const Argument& argument) {
  if (!argument.is_constant()) return std::nullopt;
  const c10::IValue& value = argument.constant();
  if (value.isInt()) return value.toInt();
  if (value.isSymInt()) return value.toSymInt().maybe_as_int();
  return std::nullopt;
}

std::optional<double> number_argument(const Argument& argument) {
  if (!argument.is_constant()) return std::nullopt;
  const c10::IValue& value = argument.constant();
  if (value.isDouble()) return value.toDouble();
  if (value.isInt()) return static_cast<double>(value.toInt());
  return std::nullopt;
}

std::optional<bool> bool_argument(const Argument& argument) {
  if (!argument.is_constant() || !argument.constant().isBool()) return std::nullopt;
  return argument.constant().toBool();
}

std::optional<std::string> text_argument(const Argument& argument) {
  if (!argument.is_constant() || !argument.constant().isString()) return std::nullopt;
  return argument.constant().toStringRef();
}

std::optional<std::vector<std::int64_t>> ints_argument(const Argument& argument, std::size_t length) {
  std::vector<std::int64_t> ints;
  if (argument.is_list()) {
    for (const Argument& item : argument.items()) {
      auto value = int_argument(item);
      if (!value) return std::nullopt;
      ints.push_back(*value);
    }
  } else if (auto value = int_argument(argument)) {
    ints.push_back(*value);
  } else if (argument.is_constant() && argument.constant().isSymIntList()) {
    for (const c10::SymInt& item : argument.constant().toSymIntVector()) {
      auto value = item.maybe_as_int();
      if (!value) return std::nullopt;
      ints.push_back(*value);
    }
  } else if (argument.is_constant() && argument.constant().isIntList()) {
    ints = argument.constant().toIntVector();
  } else {
    return std::nullopt;
  }
  if (ints.size() == 1) ints.resize(length, ints[0]);
  if (ints.size() != length) return std::nullopt;
  return ints;
}

std::optional<ProductArguments> product_arguments(const Program& program, const Node& node) {
  const std::string name = node.op_name();
  ProductArguments product;
  std::size_t input = 0, weight = 1;
  if (name == "aten::addmm") {
    if (number_argument(node.arguments[3]) != 1.0 || number_argument(node.arguments[4]) != 1.0) return std::nullopt;
    input = 1, weight = 2;
    auto bias = tensor_argument(program, node.arguments[0]);
    if (!bias) return std::nullopt;
    product.bias = *bias;
  } else if (name == "aten::linear") {
    auto bias = optional_tensor(program, node.arguments[2]);
    if (!bias) return std::nullopt;
    product.bias = *bias;
  } else if (name != "aten::mm" && name != "aten::matmul") {
    return std::nullopt;
  }
  product.weight_is_transposed = name != "aten::linear";
  auto x = tensor_argument(program, node.arguments[input]), w = tensor_argument(program, node.arguments[weight]);
  if (!x || !w || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return std::nullopt;
  product.input = *x, product.weight = *w, product.output = node.outputs[0];
  return product;
}

bool is_plain_float(const Program& program, ValueId id) {
  const TensorType& type = program.graph.type_of(id);
  return type.dtype == c10::ScalarType::Float && type.strides.size() == type.sizes.size();
}

std::vector<std::int64_t> channels_last_strides(at::IntArrayRef sizes) {
  std::vector<std::int64_t> strides(sizes.size(), 1);
  std::int64_t step = sizes[1];
  for (std::size_t axis = sizes.size() - 1; axis >= 2; --axis) {
    strides[axis] = step;
    step *= sizes[axis];
  }
  strides[0] = step;
  return strides;
}

bool same_layout(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b) {
  if (a.size() != b.size() || a.size() != sizes.size()) return false;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] > 1 && a[axis] != b[axis]) return false;
  }
  return true;
}

bool is_channels_last(const TensorType& type) {
  return type.sizes.size() == 4 && same_layout(type.sizes, type.strides, channels_last_strides(type.sizes));
}

at::Tensor conform(at::Tensor tensor, const TensorType& type) {
  if (tensor.strides() == at::IntArrayRef(type.strides) && tensor.sizes() == at::IntArrayRef(type.sizes)) return tensor;
  if (tensor.sizes() == at::IntArrayRef(type.sizes) && same_layout(type.sizes, tensor.strides(), type.strides)) {
    return tensor.as_strided(type.sizes, type.strides);
  }
  at::Tensor out = at::empty_strided(type.sizes, type.strides, tensor.options());
  out.copy_(tensor);
  return out;
}

}  // namespace dynrun::lowering
