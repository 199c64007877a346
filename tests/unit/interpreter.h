#pragma once
// An interpreter for unit tests: the environment that dynrun was built for, with torch imported where a test needs it.

#include "python/reference.h"

#include <catch2/catch.hpp>

#include <string>

namespace dynrun::test {

using python::Ref;

/// Raises what Python raised as a failure of the test.
inline Ref checked(PyObject* object) {
  if (object == nullptr) {
    PyErr_Print();
    FAIL("Python raised");
  }
  return Ref::steal(object);
}

inline void start_python() {
  if (Py_IsInitialized()) return;
  PyConfig config;
  PyConfig_InitPythonConfig(&config);
  config.install_signal_handlers = 0;
  PyConfig_SetBytesString(&config, &config.program_name, DYNRUN_BUILT_PYTHON);
  PyStatus status = Py_InitializeFromConfig(&config);
  PyConfig_Clear(&config);
  REQUIRE_FALSE(PyStatus_Exception(status));
}

inline void start_torch() {
  start_python();
  checked(PyImport_ImportModule("torch"));
}

/// A namespace in which Python source runs.
class Namespace {
 public:
  explicit Namespace(const char* source = "") {
    start_python();
    dict_ = checked(PyDict_New());
    PyDict_SetItemString(dict_.get(), "__builtins__", PyEval_GetBuiltins());
    run(source);
  }
  void run(const std::string& source) { checked(PyRun_String(source.c_str(), Py_file_input, dict_.get(), dict_.get())); }
  Ref eval(const std::string& expression) {
    return checked(PyRun_String(expression.c_str(), Py_eval_input, dict_.get(), dict_.get()));
  }
  std::string text(const std::string& expression) {
    return PyUnicode_AsUTF8(checked(PyObject_Str(eval(expression).get())).get());
  }
  void set(const char* name, PyObject* value) { PyDict_SetItemString(dict_.get(), name, value); }
  PyObject* dict() const { return dict_.get(); }

 private:
  Ref dict_;
};

}  // namespace dynrun::test
