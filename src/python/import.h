#pragma once
// Modules, whatever code runs: PyImport_ImportModule asks the builtins of the running frame, which exec may have given others.

#include "python/reference.h"
#include "python/signals.h"

namespace dynrun::python {

/// A module by its dotted name. Null, without a Python error, where there is none. importlib is Python code: a signal handler that
/// it ran would raise into it.
inline Ref import_module(const char* name) {
  const HeldSignals held;
  const Ref wanted = Ref::steal(Py_BuildValue("(s)", "__name__"));  // the module itself, and not the package that it is in
  Ref module = Ref::steal(wanted ? PyImport_ImportModuleLevel(name, nullptr, nullptr, wanted.get(), 0) : nullptr);
  if (!module) PyErr_Clear();
  return module;
}

}  // namespace dynrun::python
