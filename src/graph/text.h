#pragma once
// Names shared by the printer and the parser.

#include "graph/graph.h"

#include <array>
#include <string_view>
#include <utility>

namespace dynrun::graph {

inline constexpr std::array<std::pair<c10::ScalarType, std::string_view>, 18> kDtypeNames{{
    {c10::ScalarType::Float, "float32"},
    {c10::ScalarType::Double, "float64"},
    {c10::ScalarType::Half, "float16"},
    {c10::ScalarType::BFloat16, "bfloat16"},
    {c10::ScalarType::Long, "int64"},
    {c10::ScalarType::Int, "int32"},
    {c10::ScalarType::Short, "int16"},
    {c10::ScalarType::Char, "int8"},
    {c10::ScalarType::Byte, "uint8"},
    {c10::ScalarType::Bool, "bool"},
    {c10::ScalarType::ComplexFloat, "complex64"},
    {c10::ScalarType::ComplexDouble, "complex128"},
    {c10::ScalarType::ComplexHalf, "complex32"},
    {c10::ScalarType::UInt16, "uint16"},
    {c10::ScalarType::UInt32, "uint32"},
    {c10::ScalarType::UInt64, "uint64"},
    {c10::ScalarType::Float8_e4m3fn, "float8_e4m3fn"},
    {c10::ScalarType::Float8_e5m2, "float8_e5m2"},
}};

/// "float32"; torch's own C++ name for a dtype that has no row above.
inline std::string_view dtype_name(c10::ScalarType dtype) {
  for (const auto& [type, name] : kDtypeNames) {
    if (type == dtype) return name;
  }
  return c10::toString(dtype);
}

/// The strides that a contiguous tensor of these sizes has.
std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& sizes);

/// "float32[2, 3]{1, 2}": strides are left out when contiguous.
std::string print_type(const TensorType& type);

/// One node in text form, without the line end.
std::string print_node(const Graph& graph, const Node& node);

}  // namespace dynrun::graph
