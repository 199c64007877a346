#include "python/weak_references.h"

#include <dlfcn.h>

#include <cstring>
#include <unordered_map>

namespace dynrun::python {
namespace {

/// Whether the function is CPython's, or of a module that comes with it.
bool is_of_python(destructor function) {
  Dl_info its{}, own{};
  if (dladdr(reinterpret_cast<void*>(function), &its) == 0 || dladdr(reinterpret_cast<void*>(PyFunction_Type.tp_dealloc), &own) == 0) return false;
  return its.dli_fbase == own.dli_fbase || (its.dli_fname != nullptr && std::strstr(its.dli_fname, "/lib-dynload/") != nullptr);
}

bool is_pybind_class(PyTypeObject* type) { return std::strcmp(Py_TYPE(type)->tp_name, "pybind11_builtins.pybind11_type") == 0; }

}  // namespace

bool clears_weak_references(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!PyType_SUPPORTS_WEAKREFS(type)) return false;
  while (type->tp_base != nullptr && type->tp_base->tp_weaklistoffset != 0) type = type->tp_base;  // whoever adds their list clears it
  static auto* const known = new std::unordered_map<destructor, bool>;
  auto found = known->find(type->tp_dealloc);
  if (found == known->end()) found = known->emplace(type->tp_dealloc, is_of_python(type->tp_dealloc)).first;
  return found->second || is_pybind_class(type);
}

}  // namespace dynrun::python
