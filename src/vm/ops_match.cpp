// Structural pattern matching (PEP 634).

#include "vm/ops.h"

namespace dynrun::vm {
namespace {

// The values of `keys` in `subject` as a tuple, None when one is missing, null with an error.
PyObject* match_keys(PyObject* subject, PyObject* keys) {
  Py_ssize_t count = PyTuple_GET_SIZE(keys);
  if (count == 0) return PyTuple_New(0);
  PyObject* found = nullptr;
  bool is_method = _PyObject_GetMethod(subject, DYNRUN_NAME("get"), &found);
  python::Ref get = python::Ref::steal(found);
  if (!get) return nullptr;
  python::Ref seen = python::Ref::steal(PySet_New(nullptr));
  python::Ref missing = python::Ref::steal(PyObject_CallNoArgs(reinterpret_cast<PyObject*>(&PyBaseObject_Type)));
  python::Ref values = python::Ref::steal(PyTuple_New(count));
  if (!seen || !missing || !values) return nullptr;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* key = PyTuple_GET_ITEM(keys, i);
    if (PySet_Contains(seen.get(), key) || PySet_Add(seen.get(), key)) {
      if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "mapping pattern checks duplicate key (%R)", key);
      return nullptr;
    }
    PyObject* arguments[] = {subject, key, missing.get()};
    PyObject* value = is_method ? PyObject_Vectorcall(get.get(), arguments, 3, nullptr)
                                : PyObject_Vectorcall(get.get(), arguments + 1, 2, nullptr);
    if (!value) return nullptr;
    if (value == missing.get()) {
      Py_DECREF(value);
      return Py_NewRef(Py_None);
    }
    PyTuple_SET_ITEM(values.get(), i, value);
  }
  return values.release();
}

// subject.name appended to `attributes`. False: no match, or an error is set.
bool match_attribute(PyObject* subject, PyObject* type, PyObject* name, PyObject* seen, PyObject* attributes) {
  if (PySet_Contains(seen, name) || PySet_Add(seen, name)) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "%s() got multiple sub-patterns for attribute %R",
                   reinterpret_cast<PyTypeObject*>(type)->tp_name, name);
    }
    return false;
  }
  PyObject* value = nullptr;
  if (_PyObject_LookupAttr(subject, name, &value) <= 0) return false;
  python::Ref owned = python::Ref::steal(value);
  return PyList_Append(attributes, value) == 0;
}

bool match_positional(PyObject* subject, PyObject* type, Py_ssize_t count, PyObject* seen, PyObject* attributes) {
  const char* type_name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
  PyObject* found = nullptr;
  if (_PyObject_LookupAttr(type, DYNRUN_NAME("__match_args__"), &found) < 0) return false;
  python::Ref names = python::Ref::steal(found);
  bool match_self = false;
  if (!names) {
    names = python::Ref::steal(PyTuple_New(0));
    match_self = PyType_HasFeature(reinterpret_cast<PyTypeObject*>(type), _Py_TPFLAGS_MATCH_SELF);
  } else if (!PyTuple_CheckExact(names.get())) {
    PyErr_Format(PyExc_TypeError, "%s.__match_args__ must be a tuple (got %s)", type_name, Py_TYPE(names.get())->tp_name);
    return false;
  }
  Py_ssize_t allowed = match_self ? 1 : PyTuple_GET_SIZE(names.get());
  if (allowed < count) {
    PyErr_Format(PyExc_TypeError, "%s() accepts %d positional sub-pattern%s (%d given)", type_name, static_cast<int>(allowed),
                 allowed == 1 ? "" : "s", static_cast<int>(count));
    return false;
  }
  if (match_self) return PyList_Append(attributes, subject) == 0;
  for (Py_ssize_t i = 0; i < count; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names.get(), i);
    if (!PyUnicode_CheckExact(name)) {
      PyErr_Format(PyExc_TypeError, "__match_args__ elements must be strings (got %s)", Py_TYPE(name)->tp_name);
      return false;
    }
    if (!match_attribute(subject, type, name, seen, attributes)) return false;
  }
  return true;
}

// A tuple of attributes; null: no match, or an error is set.
PyObject* match_class(PyObject* subject, PyObject* type, Py_ssize_t positional, PyObject* names) {
  if (!PyType_Check(type)) {
    PyErr_SetString(PyExc_TypeError, "called match pattern must be a class");
    return nullptr;
  }
  if (PyObject_IsInstance(subject, type) <= 0) return nullptr;
  python::Ref seen = python::Ref::steal(PySet_New(nullptr));
  python::Ref attributes = python::Ref::steal(PyList_New(0));
  if (!seen || !attributes) return nullptr;
  if (positional && !match_positional(subject, type, positional, seen.get(), attributes.get())) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    if (!match_attribute(subject, type, PyTuple_GET_ITEM(names, i), seen.get(), attributes.get())) return nullptr;
  }
  return PyList_AsTuple(attributes.get());
}

}  // namespace

DYNRUN_OP(GetLen) {
  Py_ssize_t length = PyObject_Length(top.peek(1));
  return length < 0 ? Status::kError : push_or_error(top, PyLong_FromSsize_t(length));
}

DYNRUN_OP(MatchMapping) {
  bool matches = Py_TYPE(top.peek(1))->tp_flags & Py_TPFLAGS_MAPPING;
  return push_or_error(top, Py_NewRef(matches ? Py_True : Py_False));
}

DYNRUN_OP(MatchSequence) {
  bool matches = Py_TYPE(top.peek(1))->tp_flags & Py_TPFLAGS_SEQUENCE;
  return push_or_error(top, Py_NewRef(matches ? Py_True : Py_False));
}

DYNRUN_OP(MatchKeys) {
  return push_or_error(top, match_keys(top.peek(2), top.peek(1)));
}

DYNRUN_OP(MatchClass) {
  python::Ref names = python::Ref::steal(top.pop());
  python::Ref type = python::Ref::steal(top.pop());
  python::Ref subject = python::Ref::steal(top.pop());
  PyObject* attributes = match_class(subject.get(), type.get(), instruction.argument, names.get());
  if (!attributes && PyErr_Occurred()) return Status::kError;
  return push_or_error(top, attributes ? attributes : Py_NewRef(Py_None));
}

}  // namespace dynrun::vm
