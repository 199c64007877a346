#pragma once
// Reading a node's arguments and a value's layout.

#include "lowering/program.h"

#include <optional>
#include <string>
#include <vector>

namespace dynrun::lowering {

using graph::Argument;
using graph::Node;
using graph::TensorType;
using graph::ValueId;

/// The tensor value of an argument; kNoValue for None. Nullopt for anything else.
std::optional<ValueId> optional_tensor(const Program& program, const Argument& argument);
/// As above, but there must be one.
std::optional<ValueId> tensor_argument(const Program& program, const Argument& argument);
/// Constant numbers; nullopt for None, host values and other types.
std::optional<std::int64_t> int_argument(const Argument& argument);
std::optional<double> number_argument(const Argument& argument);
std::optional<bool> bool_argument(const Argument& argument);
std::optional<std::string> text_argument(const Argument& argument);
/// A constant list of ints; a single int, or a list of one, is repeated `length` times.
std::optional<std::vector<std::int64_t>> ints_argument(const Argument& argument, std::size_t length);

/// input @ weight + bias, as aten::linear, addmm, mm and matmul write it.
struct ProductArguments {
  ValueId input = graph::kNoValue, weight = graph::kNoValue, bias = graph::kNoValue, output = graph::kNoValue;
  bool weight_is_transposed = false;  // [in, out], as in mm
};
/// Nullopt for another operator, and for an addmm with factors.
std::optional<ProductArguments> product_arguments(const Program& program, const Node& node);

/// A float32 tensor on the CPU.
bool is_plain_float(const Program& program, ValueId id);
std::vector<std::int64_t> channels_last_strides(at::IntArrayRef sizes);
/// True when an element's place in memory is the same under both strides (strides of dimensions of size 1 do not matter).
bool same_layout(at::IntArrayRef sizes, at::IntArrayRef a, at::IntArrayRef b);
bool is_channels_last(const TensorType& type);
/// `tensor` with exactly the strides of `type`: itself, another view of it, or a copy.
at::Tensor conform(at::Tensor tensor, const TensorType& type);

}  // namespace dynrun::lowering
