#include "guards/cached_call.h"

#include "python/import.h"

namespace dynrun::guards {

using python::Ref;

namespace {

constexpr const char* kPlace = "dynrun.place";

// CPython 3.12's _functoolsmodule.c, field by field; `mirror_fits` tries it out before it is trusted.
struct Link {
  PyObject_HEAD
  Link *previous, *next;
  Py_hash_t hash;
  PyObject *key, *result;
};

struct Wrapper {
  Link root;
  PyObject* (*wrapper)(Wrapper*, PyObject*, PyObject*);
  int typed;
  PyObject* cache;
  Py_ssize_t hits;
  PyObject* function;
  Py_ssize_t maximum;
  Py_ssize_t misses;
  PyObject* keyword_mark;
};

PyTypeObject* wrapper_type() {
  static PyTypeObject* type = [] {
    Ref module = python::import_module("_functools");
    Ref found = Ref::steal(module ? PyObject_GetAttrString(module.get(), "_lru_cache_wrapper") : nullptr);
    PyErr_Clear();
    return reinterpret_cast<PyTypeObject*>(found.release());
  }();
  return type;
}

PyObject* look_up(PyObject* object, PyObject* key) {
  auto* wrapper = reinterpret_cast<Wrapper*>(object);
  if (wrapper->maximum == 0 || wrapper->cache == nullptr || !PyDict_CheckExact(wrapper->cache)) return nullptr;
  PyObject* found = PyDict_GetItemWithError(wrapper->cache, key);
  if (found == nullptr) PyErr_Clear();
  return found && wrapper->maximum > 0 ? reinterpret_cast<Link*>(found)->result : found;
}

/// Whether a cache made for the purpose looks as the mirror says.
bool mirror_fits() {
  static const bool fits = [] {
    bool good = wrapper_type() != nullptr;
    for (bool bounded : {true, false}) {
      Ref size = bounded ? Ref::steal(PyLong_FromLong(4)) : Ref::borrow(Py_None);
      auto* list = reinterpret_cast<PyObject*>(&PyList_Type);
      Ref cached = Ref::steal(good ? PyObject_CallFunction(reinterpret_cast<PyObject*>(wrapper_type()), "OOOO", list, size.get(), Py_False, list) : nullptr);
      Ref key = Ref::steal(PyUnicode_FromString("ab"));
      Ref made = Ref::steal(cached ? PyObject_CallOneArg(cached.get(), key.get()) : nullptr);
      good = made && Py_TYPE(cached.get()) == wrapper_type() && look_up(cached.get(), key.get()) == made.get() &&
             reinterpret_cast<Wrapper*>(cached.get())->misses == 1 && reinterpret_cast<Wrapper*>(cached.get())->typed == 0;
    }
    PyErr_Clear();
    return good;
  }();
  return fits;
}

}  // namespace

Ref cache_key(PyObject* object, const std::vector<PyObject*>& arguments, const std::vector<PyObject*>& parts, Py_ssize_t positional,
              PyObject* keyword_names) {
  if (Py_TYPE(object) != wrapper_type() || !mirror_fits()) return {};
  auto* wrapper = reinterpret_cast<Wrapper*>(object);
  Py_ssize_t named = keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0;
  if (!wrapper->typed && named == 0 && positional == 1 && (PyUnicode_CheckExact(arguments[0]) || PyLong_CheckExact(arguments[0])))
    return Ref::borrow(arguments[0]);
  Ref key = Ref::steal(PyList_New(0));
  for (Py_ssize_t i = 0; i < positional; i++) PyList_Append(key.get(), parts[static_cast<std::size_t>(i)]);
  if (named > 0) PyList_Append(key.get(), wrapper->keyword_mark);
  for (Py_ssize_t i = 0; i < named; i++) {
    PyList_Append(key.get(), PyTuple_GET_ITEM(keyword_names, i));
    PyList_Append(key.get(), parts[static_cast<std::size_t>(positional + i)]);
  }
  if (wrapper->typed) {
    for (PyObject* argument : arguments) PyList_Append(key.get(), reinterpret_cast<PyObject*>(Py_TYPE(argument)));
  }
  return Ref::steal(PyList_AsTuple(key.get()));
}

PyObject* cached_result(PyObject* object, PyObject* key) {
  return Py_TYPE(object) == wrapper_type() && mirror_fits() && key ? look_up(object, key) : nullptr;
}

Ref key_place(std::int32_t source) {
  return Ref::steal(PyCapsule_New(reinterpret_cast<void*>(static_cast<std::intptr_t>(source) + 1), kPlace, nullptr));
}

Ref filled_key(PyObject* key, const std::vector<PyObject*>& registers) {
  if (PyCapsule_IsValid(key, kPlace)) return Ref::borrow(registers[reinterpret_cast<std::uintptr_t>(PyCapsule_GetPointer(key, kPlace)) - 1]);
  if (!PyTuple_CheckExact(key)) return Ref::borrow(key);
  Ref filled = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(key)));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(key); i++) {
    Ref part = filled_key(PyTuple_GET_ITEM(key, i), registers);
    if (!part) return {};
    PyTuple_SET_ITEM(filled.get(), i, part.release());
  }
  return filled;
}

}  // namespace dynrun::guards
