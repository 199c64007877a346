#include "trace/hidden_key.h"

#include "python/import.h"
#include "python/reference.h"

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace dynrun::trace {

using python::Ref;

namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericMode;
constexpr const char* kName = "_dispatch_tls_local_include_set";

/// `original`: torch's function, which is called with the key off.
PyObject* include_set(PyObject* original, PyObject*) {
  const bool was_on = c10::impl::tls_is_dispatch_key_included(kKey);
  if (was_on) c10::impl::tls_set_dispatch_key_included(kKey, false);
  PyObject* found = PyObject_CallNoArgs(original);
  if (was_on) c10::impl::tls_set_dispatch_key_included(kKey, true);
  return found;
}

PyMethodDef include_set_method{kName, include_set, METH_NOARGS, nullptr};

}  // namespace

void hide_recording_key() {
  const Ref module = python::import_module("torch._C");
  const Ref original = module ? Ref::steal(PyObject_GetAttrString(module.get(), kName)) : Ref();
  const Ref replacement = original ? Ref::steal(PyCFunction_NewEx(&include_set_method, original.get(), nullptr)) : Ref();
  if (!replacement || PyObject_SetAttrString(module.get(), kName, replacement.get()) != 0) PyErr_Clear();
}

}  // namespace dynrun::trace
