#include "guards/numpy_scalar.h"

#include <algorithm>
#include <cfloat>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>

namespace dynrun::guards {
namespace {

constexpr NumpyScalar kScalars[] = {
    {"float64", 8, true, false, DBL_MIN, DBL_MAX, true},
    {"float32", 4, true, false, FLT_MIN, FLT_MAX, true},
    {"float16", 2, true, false, 6.2e-5, 65504, true},
    {"int64", 8, false, false, 0, kMostExact, true},
    {"int32", 4, false, false, 0, INT32_MAX, true},
    {"int16", 2, false, false, 0, INT16_MAX, true},
    {"int8", 1, false, false, 0, INT8_MAX, true},
    {"uint64", 8, false, false, 0, kMostExact, false},
    {"uint32", 4, false, false, 0, UINT32_MAX, false},
    {"uint16", 2, false, false, 0, UINT16_MAX, false},
    {"uint8", 1, false, false, 0, UINT8_MAX, false},
    {"bool", 1, false, true, 0, 1, false},
    {"bool_", 1, false, true, 0, 1, false},
};

}  // namespace

const NumpyScalar* numpy_scalar(PyTypeObject* type) {
  constexpr std::string_view kModule = "numpy.";
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) || std::strncmp(type->tp_name, kModule.data(), kModule.size()) != 0) return nullptr;
  const std::string_view name = type->tp_name + kModule.size();
  const auto* found = std::find_if(std::begin(kScalars), std::end(kScalars), [&](const NumpyScalar& one) { return name == one.name; });
  return found == std::end(kScalars) ? nullptr : found;
}

bool same_numpy_scalars(PyObject* a, PyObject* b) {
  // The number comes right behind the object's header in each of them.
  return std::memcmp(a + 1, b + 1, numpy_scalar(Py_TYPE(a))->bytes) == 0;
}

}  // namespace dynrun::guards
