#pragma once
// Tensors of a graph's input types, with the recorded strides.

#include "graph/graph.h"

#include <ATen/ATen.h>
#include <cmath>

namespace dynrun::test {

inline at::Tensor random_tensor(const graph::TensorType& type, double scale = 1.0) {
  at::Tensor tensor = at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype));
  at::Tensor values;
  if (type.dtype == at::kBool) {
    values = at::rand(type.sizes) > 0.5;
  } else if (c10::isFloatingType(type.dtype)) {
    values = at::randn(type.sizes) * scale;
  } else {
    values = at::randint(0, 100, type.sizes, at::TensorOptions().dtype(at::kLong));
  }
  // Overlapping strides (an expanded input) cannot be written through.
  bool expanded = false;
  for (std::size_t i = 0; i < type.sizes.size(); ++i) expanded = expanded || (type.strides[i] == 0 && type.sizes[i] > 1);
  if (!expanded) return tensor.copy_(values);
  at::Tensor storage = at::empty_like(values, at::TensorOptions().dtype(type.dtype)).copy_(values).flatten();
  return storage.as_strided(type.sizes, type.strides);
}

/// Parameters that look like a model's: variances positive, weights small.
inline std::vector<at::Tensor> random_inputs(const graph::Graph& graph) {
  std::vector<at::Tensor> inputs;
  for (const graph::Input& input : graph.inputs) {
    const std::string& name = graph.values[static_cast<std::size_t>(input.value)].name;
    const graph::TensorType& type = graph.type_of(input.value);
    bool parameter = input.kind == graph::InputKind::kParameter && c10::isFloatingType(type.dtype);
    double fan_in = type.sizes.size() < 2 ? 1.0 : static_cast<double>(type.element_count() / type.sizes[0]);
    at::Tensor tensor = random_tensor(type, parameter && type.sizes.size() >= 2 ? std::sqrt(2.0 / fan_in)
                                            : parameter                         ? 0.1
                                                                                : 1.0);
    if (name.find("running_var") != std::string::npos) tensor.abs_().add_(0.5);
    if (parameter && type.sizes.size() == 1 && name.find("weight") != std::string::npos) tensor.add_(1.0);
    // Buffers of indices (positions, token types) must stay in range wherever they index.
    if (input.kind == graph::InputKind::kParameter && c10::isIntegralType(type.dtype, true)) tensor.zero_();
    inputs.push_back(tensor);
  }
  return inputs;
}

}  // namespace dynrun::test
