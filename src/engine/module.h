#pragma once
// The Python module `dynrun`.

#include <Python.h>

namespace dynrun::engine {

/// A new reference to the module object; null with a Python error set.
PyObject* make_module();

}  // namespace dynrun::engine
