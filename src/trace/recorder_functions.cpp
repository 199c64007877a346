// Code in Python that stands for C code (src/python/dynrun/_functions.py), so that what that calls is recorded: torch.autograd.Function's
// `apply` where nobody asks for gradients, copy.deepcopy() of objects.

#include "guards/torch_python.h"
#include "python/frame.h"
#include "trace/recorder.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <array>

namespace dynrun::trace {

using python::Ref;

namespace {

/// `apply` of the class in C, which torch.autograd.Function's own ends in; borrowed.
PyObject* native_apply() {
  static const python::Kept owner = import_path("torch._C:_FunctionBase");
  static PyObject* const name = PyUnicode_InternFromString("apply");
  return owner.get() ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name) : nullptr;
}

/// Frames of these functions, those of classes too, are never complete for CPython: no traceback, f_back or tracer meets them.
void hide_frames(PyObject* names) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(names, &at, &key, &value)) {
    if (PyObject* getter = Py_TYPE(value) == &PyProperty_Type ? *reinterpret_cast<PyObject**>(value + 1) : nullptr) value = getter;
    if (PyFunction_Check(value)) {
      auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(value));
      if (python::stands_in(code)) code->_co_firsttraceable = static_cast<int>(Py_SIZE(code));
    } else if (PyType_Check(value)) {
      auto* type = reinterpret_cast<PyTypeObject*>(value);
      PyObject* module = PyDict_GetItemString(type->tp_dict, "__module__");
      if (module && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "dynrun._functions") == 0) hide_frames(type->tp_dict);
    }
  }
}

/// A function of _functions.py.
Ref stand_in(const char* name) {
  static PyObject* module = nullptr;
  if (module == nullptr) {
    const Ref part = import_path("dynrun:_part");
    module = part ? PyObject_CallFunction(part.get(), "s", "_functions") : nullptr;
    if (module) hide_frames(PyModule_GetDict(module));
  }
  return module ? Ref::steal(PyObject_GetAttrString(module, name)) : Ref();
}

/// Whether the class's function names what the stand-in does not do as torch does.
bool names_more(PyObject* type, const char* function) {
  const Ref name = Ref::steal(PyUnicode_InternFromString(function));
  PyObject* found = name ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name.get()) : nullptr;
  if (found && (Py_TYPE(found) == &PyStaticMethod_Type || Py_TYPE(found) == &PyClassMethod_Type)) found = *reinterpret_cast<PyObject**>(found + 1);
  if (!found || !PyFunction_Check(found)) return true;
  PyObject* names = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(found))->co_names;
  static constexpr std::array<const char*, 8> kMore = {"mark_dirty", "dirty_tensors", "next_functions", "metadata", "name", "register_hook", "saved_variables", "BackwardCFunction"};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
    auto is_name = [&](const char* text) { return PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), text) == 0; };
    if (std::any_of(kMore.begin(), kMore.end(), is_name)) return true;
  }
  return false;
}

bool is_function(PyObject* object) {
  static const python::Kept function = import_path("torch.autograd.function:_SingleLevelFunction");
  return PyType_Check(object) && function && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(object), reinterpret_cast<PyTypeObject*>(function.get()));
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
  if (!is_function(self) || std::any_of(site.arguments.begin(), site.arguments.end(), is_differentiated) || !resolve(self)) return std::nullopt;
  if (names_more(self, "forward") || names_more(self, "setup_context")) return std::nullopt;
  const Ref make = stand_in("context_of"), kind = make ? Ref::steal(PyObject_CallOneArg(make.get(), self)) : Ref();
  if (!kind) return Flow::kRaise;
  if (source_of(kind.get()) == guards::kNoSource) learn_external(kind.get(), guards_.constant(kind.get()));
  site.arguments.insert(site.arguments.begin(), {kind.get(), self});
  site.positional += 2;
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
