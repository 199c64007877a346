#pragma once
// NumPy's scalars (numpy.float64 and its kind): constants as Python's own numbers are.

#include <Python.h>

#include <cstddef>

namespace dynrun::guards {

constexpr double kMostExact = 9007199254740992.0;  // 2^53: integers up to it are doubles

/// Of what an object of NumPy's own scalar classes holds, and null for any other.
struct NumpyScalar {
  const char* name;     // "float64"
  std::size_t bytes;    // of its number
  bool floating, boolean;
  double least, most;   // in magnitude, of numbers that it holds as normal ones
  bool has_sign;
};
const NumpyScalar* numpy_scalar(PyTypeObject* type);
inline bool is_numpy_scalar(PyObject* object) { return numpy_scalar(Py_TYPE(object)) != nullptr; }
/// Of two of one class: whether they hold the same, bit by bit.
bool same_numpy_scalars(PyObject* a, PyObject* b);

}  // namespace dynrun::guards
