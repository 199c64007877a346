#pragma once
// What is asked of Python numbers.

#include <Python.h>

namespace dynrun::python {

/// An int or a float, and nothing of a class of its own (a bool neither).
inline bool is_number(PyObject* object) { return PyLong_CheckExact(object) || PyFloat_CheckExact(object); }

/// An int that there is one object of, so that equal ones are identical.
inline bool is_small_int(PyObject* object) {
  if (!PyLong_CheckExact(object)) return false;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 && value >= -5 && value <= 256;
}

}  // namespace dynrun::python
