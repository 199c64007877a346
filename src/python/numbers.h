#pragma once
// Python numbers that CPython keeps one object of.

#include <Python.h>

namespace dynrun::python {

/// An int that there is one object of, so that equal ones are identical.
inline bool is_small_int(PyObject* object) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && value >= -5 && value <= 256;
}

}  // namespace dynrun::python
