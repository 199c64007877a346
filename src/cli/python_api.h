#pragma once
// The part of CPython's C API that the executable uses, found with dlsym: the executable does not link libpython, so that a
// missing or wrong one is a line for the user and not a loader's error.

#include <Python.h>

#include <string>

namespace dynrun::cli {

#define DYNRUN_PYTHON_FUNCTIONS(X) \
  X(PyConfig_InitPythonConfig)     \
  X(PyConfig_Clear)                \
  X(PyConfig_SetBytesArgv)         \
  X(PyConfig_SetBytesString)       \
  X(PyConfig_SetWideStringList)    \
  X(PyPreConfig_InitPythonConfig)  \
  X(Py_PreInitializeFromBytesArgs) \
  X(Py_DecodeLocale)               \
  X(Py_InitializeFromConfig)       \
  X(Py_ExitStatusException)        \
  X(Py_GetVersion)                 \
  X(Py_RunMain)                    \
  X(Py_AddPendingCall)             \
  X(Py_DecRef)                     \
  X(Py_IncRef)                     \
  X(PyStatus_Exception)            \
  X(PyStatus_IsExit)               \
  X(PySys_GetObject)               \
  X(PySys_SetObject)               \
  X(PyUnicode_DecodeFSDefault)     \
  X(PyUnicode_AsUTF8)              \
  X(PyUnicode_CompareWithASCIIString) \
  X(PyImport_AppendInittab)        \
  X(PyImport_GetModuleDict)        \
  X(PyImport_ImportModule)         \
  X(PyDict_AddWatcher)             \
  X(PyDict_ClearWatcher)           \
  X(PyDict_Watch)                  \
  X(PyDict_GetItemString)          \
  X(PyModule_GetDict)              \
  X(PyObject_CallMethod)           \
  X(PyObject_SetAttrString)        \
  X(PyCMethod_New)                 \
  X(PyErr_SetObject)               \
  X(PyErr_SetString)               \
  X(PyErr_Clear)                   \
  X(PyErr_WriteUnraisable)         \
  X(PyErr_GetRaisedException)      \
  X(PyErr_SetRaisedException)      \
  X(PyLong_FromLong)

struct PythonApi {
#define DYNRUN_DECLARE(name) decltype(&::name) name = nullptr;
  DYNRUN_PYTHON_FUNCTIONS(DYNRUN_DECLARE)
#undef DYNRUN_DECLARE
  PyObject* system_exit = nullptr;   // PyExc_SystemExit, known after initialisation
  PyObject* import_error = nullptr;  // PyExc_ImportError
  PyObject* none = nullptr;          // Py_None

  /// Reads the exception types, once Python is initialised.
  void read_objects();

 private:
  void* library_ = nullptr;
  friend PythonApi load_python(const std::string& library);
};

/// Opens libpython for everyone in the process (extension modules look for its symbols). Throws UserError.
PythonApi load_python(const std::string& library);

}  // namespace dynrun::cli
