// Calls of torch.autograd.Function whose gradients nobody asks for: forward() is recorded, by way of src/python/dynrun/_functions.py.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace dynrun::trace {

using python::Ref;

namespace {

/// `apply` of the class in C, which torch.autograd.Function's own ends in; borrowed.
PyObject* native_apply() {
  static const Ref owner = import_path("torch._C:_FunctionBase");
  static PyObject* const name = PyUnicode_InternFromString("apply");
  return owner ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name) : nullptr;
}

/// Borrowed; null with an error set.
PyObject* recorded_apply() {
  static Ref function;
  if (function) return function.get();
  const Ref part = import_path("dynrun:_part");
  const Ref module = part ? Ref::steal(PyObject_CallFunction(part.get(), "s", "_functions")) : Ref();
  function = module ? Ref::steal(PyObject_GetAttrString(module.get(), "apply")) : Ref();
  return function.get();
}

bool is_differentiated(PyObject* argument) {
  if (!guards::is_tensor(argument)) return false;
  if (!guards::is_plain_tensor(argument)) return true;  // left to torch
  const at::Tensor& tensor = guards::tensor_of(argument);
  return (at::GradMode::is_enabled() && tensor.requires_grad()) || tensor._fw_grad(0).defined();
}

}  // namespace

std::optional<Flow> Recorder::call_autograd_function(vm::Activation& activation, const bytecode::Instruction& in, CallSite& site) {
  if (!PyCFunction_CheckExact(site.callee) || site.keyword_names || !is_method(site.callee, native_apply())) return std::nullopt;
  PyObject* self = PyCFunction_GET_SELF(site.callee);
  if (std::any_of(site.arguments.begin(), site.arguments.end(), is_differentiated) || !resolve(self)) return std::nullopt;
  PyObject* function = recorded_apply();
  if (function == nullptr) return Flow::kRaise;
  if (source_of(function) == guards::kNoSource) {
    objects_.erase(function);  // of a function that recorded code made, which is gone, at the same address
    learn_external(function, guards_.constant(function));
  }
  site.callee = function;
  site.arguments.insert(site.arguments.begin(), self);
  site.positional++;
  return call_python(activation, in, site);
}

}  // namespace dynrun::trace
