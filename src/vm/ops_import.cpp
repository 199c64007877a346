// import.

#include "vm/ops.h"

namespace dynrun::vm {
namespace {

PyObject* import_name(python::Frame* frame, PyObject* name, PyObject* fromlist, PyObject* level) {
  PyObject* key = DYNRUN_NAME("__import__");
  python::Ref function = python::Ref::borrow(PyDict_GetItemWithError(frame->builtins, key));
  if (!function) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ImportError, "__import__ not found");
    return nullptr;
  }
  PyObject* locals = frame->locals ? frame->locals : Py_None;
  if (function.get() == dynrun_import_function(PyThreadState_Get())) {
    int number = _PyLong_AsInt(level);
    if (number == -1 && PyErr_Occurred()) return nullptr;
    return PyImport_ImportModuleLevelObject(name, frame->globals, locals, fromlist, number);
  }
  PyObject* arguments[] = {name, frame->globals, locals, fromlist, level};
  return PyObject_Vectorcall(function.get(), arguments, 5, nullptr);
}

void raise_cannot_import(PyObject* module, PyObject* module_name, PyObject* name) {
  PyErr_Clear();
  python::Ref path = python::Ref::steal(PyModule_GetFilenameObject(module));
  python::Ref shown =
      module_name ? python::Ref::borrow(module_name) : python::Ref::steal(PyUnicode_FromString("<unknown module name>"));
  python::Ref message;
  bool located = path && PyUnicode_Check(path.get());
  if (!located) {
    PyErr_Clear();
    message = python::Ref::steal(PyUnicode_FromFormat("cannot import name %R from %R (unknown location)", name, shown.get()));
  } else {
    python::Ref spec = python::Ref::steal(PyObject_GetAttrString(module, "__spec__"));
    if (!spec) PyErr_Clear();
    const char* format = _PyModuleSpec_IsInitializing(spec.get())
                             ? "cannot import name %R from partially initialized module %R "
                               "(most likely due to a circular import) (%S)"
                             : "cannot import name %R from %R (%S)";
    message = python::Ref::steal(PyUnicode_FromFormat(format, name, shown.get(), path.get()));
  }
  if (!message) return;
  python::Ref arguments = python::Ref::steal(PyTuple_Pack(1, message.get()));
  python::Ref keywords = python::Ref::steal(PyDict_New());
  if (!arguments || !keywords) return;
  PyDict_SetItemString(keywords.get(), "name", module_name ? module_name : Py_None);
  PyDict_SetItemString(keywords.get(), "path", located ? path.get() : Py_None);
  PyDict_SetItemString(keywords.get(), "name_from", name);
  python::Ref error = python::Ref::steal(PyObject_Call(PyExc_ImportError, arguments.get(), keywords.get()));
  if (error) PyErr_SetObject(PyExc_ImportError, error.get());
}

PyObject* import_from(PyObject* module, PyObject* name) {
  PyObject* value = nullptr;
  if (_PyObject_LookupAttr(module, name, &value) != 0) return value;
  // A circular import: the submodule may be in sys.modules already.
  python::Ref module_name = python::Ref::steal(PyObject_GetAttrString(module, "__name__"));
  if (module_name && PyUnicode_Check(module_name.get())) {
    python::Ref full_name = python::Ref::steal(PyUnicode_FromFormat("%U.%U", module_name.get(), name));
    if (!full_name) return nullptr;
    value = PyImport_GetModule(full_name.get());
    if (value || PyErr_Occurred()) return value;
  } else {
    module_name = python::Ref();
  }
  raise_cannot_import(module, module_name.get(), name);
  return nullptr;
}

void raise_bad_name(PyObject* module, PyObject* name, bool from_dict) {
  python::Ref module_name = python::Ref::steal(PyObject_GetAttrString(module, "__name__"));
  if (!module_name) return;
  if (!PyUnicode_Check(module_name.get())) {
    PyErr_Format(PyExc_TypeError, "module __name__ must be a string, not %.100s", Py_TYPE(module_name.get())->tp_name);
    return;
  }
  PyErr_Format(PyExc_TypeError, "%s in %U.%s must be str, not %.100s", from_dict ? "Key" : "Item", module_name.get(),
               from_dict ? "__dict__" : "__all__", Py_TYPE(name)->tp_name);
}

bool import_all(PyObject* locals, PyObject* module) {
  PyObject* found = nullptr;
  if (_PyObject_LookupAttr(module, DYNRUN_NAME("__all__"), &found) < 0) return false;
  bool from_dict = !found;
  if (from_dict) {
    if (_PyObject_LookupAttr(module, DYNRUN_NAME("__dict__"), &found) < 0) return false;
    python::Ref dict = python::Ref::steal(found);
    if (!dict) {
      PyErr_SetString(PyExc_ImportError, "from-import-* object has no __dict__ and no __all__");
      return false;
    }
    found = PyMapping_Keys(dict.get());
    if (!found) return false;
  }
  python::Ref names = python::Ref::steal(found);
  for (Py_ssize_t i = 0;; ++i) {
    python::Ref name = python::Ref::steal(PySequence_GetItem(names.get(), i));
    if (!name) {
      if (!PyErr_ExceptionMatches(PyExc_IndexError)) return false;
      PyErr_Clear();
      return true;
    }
    if (!PyUnicode_Check(name.get())) {
      raise_bad_name(module, name.get(), from_dict);
      return false;
    }
    if (from_dict && PyUnicode_GET_LENGTH(name.get()) > 0 && PyUnicode_READ_CHAR(name.get(), 0) == '_') continue;
    python::Ref value = python::Ref::steal(PyObject_GetAttr(module, name.get()));
    if (!value) return false;
    int failed = PyDict_CheckExact(locals) ? PyDict_SetItem(locals, name.get(), value.get())
                                           : PyObject_SetItem(locals, name.get(), value.get());
    if (failed) return false;
  }
}

}  // namespace

PyObject* import_star(python::Frame* frame, PyObject* module) {
  if (!frame->locals) {
    PyErr_SetString(PyExc_SystemError, "no locals found during 'import *'");
    return nullptr;
  }
  return import_all(frame->locals, module) ? Py_NewRef(Py_None) : nullptr;
}

DYNRUN_OP(ImportName) {
  python::Ref fromlist = python::Ref::steal(top.pop());
  python::Ref level = python::Ref::steal(top.pop());
  return push_or_error(top, import_name(top.frame, name_at(top, instruction.argument), fromlist.get(), level.get()));
}

DYNRUN_OP(ImportFrom) {
  return push_or_error(top, import_from(top.peek(1), name_at(top, instruction.argument)));
}

}  // namespace dynrun::vm
