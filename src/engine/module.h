#pragma once
// The Python module `dynrun`.

#include <Python.h>

namespace dynrun::engine {

/// A new reference to the module object; null with a Python error set.
PyObject* make_module();

/// Calls a function without arguments of the package's file `part`. What it raises is written to stderr.
void run_part(const char* part, const char* function);

}  // namespace dynrun::engine
