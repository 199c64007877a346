// Code in Python that stands for C code (src/python/dynrun/_functions.py), so that what that calls is recorded: torch.autograd.Function's
// `apply` where nobody asks for gradients, copy.deepcopy() of objects.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>

namespace dynrun::trace {

using python::Ref;

namespace {

/// `apply` of the class in C, which torch.autograd.Function's own ends in; borrowed.
PyObject* native_apply() {
  static const python::Kept owner = import_path("torch._C:_FunctionBase");
  static PyObject* const name = PyUnicode_InternFromString("apply");
  return owner.get() ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name) : nullptr;
}

/// A function of _functions.py.
Ref stand_in(const char* name) {
  static PyObject* module = nullptr;
  if (module == nullptr) {
    const Ref part = import_path("dynrun:_part");
    module = part ? PyObject_CallFunction(part.get(), "s", "_functions") : nullptr;
  }
  return module ? Ref::steal(PyObject_GetAttrString(module, name)) : Ref();
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
  site.arguments.insert(site.arguments.begin(), self);
  site.positional++;
  return call_stand_in(activation, in, site, "apply");
}

/// The call goes to Python code of dynrun's that does the same.
Flow Recorder::call_stand_in(vm::Activation& activation, const bytecode::Instruction& in, CallSite& site, const char* name) {
  const Ref function = stand_in(name);
  if (!function) return Flow::kRaise;
  if (source_of(function.get()) == guards::kNoSource) {
    objects_.erase(function.get());  // of a function that recorded code made, which is gone, at the same address
    learn_external(function.get(), guards_.constant(function.get()));
  }
  site.callee = function.get();
  return call_python(activation, in, site);
}

}  // namespace dynrun::trace
