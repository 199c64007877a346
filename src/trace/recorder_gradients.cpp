// `tensor.grad` of leaves from outside: read as another tensor from outside, written by an effect.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <algorithm>

namespace dynrun::trace {

using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

/// Whether no object is given twice.
PyObject* are_distinct(PyObject*, PyObject* const* objects, Py_ssize_t count) {
  std::vector<PyObject*> sorted(objects, objects + count);
  std::sort(sorted.begin(), sorted.end());
  return PyBool_FromLong(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end());
}

bool is_gradient(PyTypeObject* type, PyObject* name) {
  PyObject* found = _PyType_Lookup(type, name);
  return PyUnicode_CompareWithASCIIString(name, "grad") == 0 && found && Py_TYPE(found) == &PyGetSetDescr_Type;
}

/// What torch's own setter takes without an error.
bool fits(const at::Tensor& tensor, const at::Tensor& gradient) {
  return gradient.layout() == c10::kStrided && !gradient.is_same(tensor) && gradient.scalar_type() == tensor.scalar_type() &&
         gradient.device() == tensor.device() && gradient.sizes() == tensor.sizes();
}

}  // namespace

/// The caller knows that the class finds torch's own descriptor under `name`.
Recorder::Attribute Recorder::look_up_gradient(PyObject* object, PyObject* name, SourceId* source) {
  PyObject* gradient = resolve(object) ? guards::gradient_of(object) : nullptr;
  if (gradient == nullptr) return Attribute::kUnknown;
  SourceId owner = source_of(object);
  if (owner == kNoSource) return gradient == Py_None ? Attribute::kRun : Attribute::kUnknown;
  gradient_owners_.insert(object);
  if (was_written(object, name)) return resolve(gradient) ? Attribute::kRun : Attribute::kUnknown;
  *source = guards_.read(SourceKind::kGradient, owner, 0, nullptr);
  return learn_external(gradient, *source) ? Attribute::kValue : Attribute::kUnknown;
}

/// Notes `tensor.grad = value`. The store itself is the VM's.
bool Recorder::store_gradient(PyObject* tensor, PyObject* name, PyObject* value) {
  if (!guards::is_plain_tensor(tensor) || source_of(tensor) == kNoSource || guards::gradient_of(tensor) == nullptr) return false;
  PyTypeObject* type = Py_TYPE(tensor);
  static PyObject* const setattr_name = PyUnicode_InternFromString("__setattr__");
  PyObject* setter = _PyType_Lookup(type, setattr_name);
  if (setter != _PyType_Lookup(&PyBaseObject_Type, setattr_name) || !is_gradient(type, name)) return false;
  if (value != Py_None && !(guards::is_plain_tensor(value) && fits(guards::tensor_of(tensor), guards::tensor_of(value)))) return false;
  guards_.note_type_lookup(type, setattr_name, setter);
  guards_.note_type_lookup(type, name, _PyType_Lookup(type, name));
  mutations_++;
  writes_gradients_ = true;
  gradient_owners_.insert(tensor);
  written_keys_[tensor].push_back(Ref::borrow(name));
  effects_.push_back({EffectKind::kSetAttribute, Ref::borrow(tensor), Ref::borrow(name), Ref::borrow(value)});
  return true;
}

/// A gradient that was written must not be another tensor's that was read or written too.
void Recorder::require_distinct_gradients() {
  if (!writes_gradients_ || gradient_owners_.size() < 2) return;
  static PyMethodDef definition{"are_distinct", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(are_distinct)), METH_FASTCALL, nullptr};
  static const python::Kept function = Ref::steal(PyCFunction_New(&definition, nullptr));
  std::vector<HostId> owners;
  for (PyObject* owner : gradient_owners_) owners.push_back(host_.read(source_of(owner), owner));
  host_.require_equal(host_.compute(HostKind::kCall, 0, std::move(owners), function.get(), Py_True), Py_True);
}

}  // namespace dynrun::trace
