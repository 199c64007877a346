// Ends of objects that somebody is told of: `__del__`, callbacks of weak references, generators that are left in the middle, open files.
//
// A recorder holds what it has seen, and a replay writes locals only at its exit, so such an object would live too long. The
// segment ends before the instruction that lets go of it.

#include "python/compat.h"
#include "trace/callables.h"
#include "trace/recorder.h"

#include <algorithm>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;

namespace {

constexpr int kMaxLevels = 2, kMaxItems = 32;

bool has_weak_callback(PyObject* object) {
  if (!PyType_SUPPORTS_WEAKREFS(Py_TYPE(object))) return false;
  auto* reference = reinterpret_cast<PyWeakReference*>(*PyObject_GET_WEAKREFS_LISTPTR(object));
  for (; reference; reference = reference->wr_next) {
    if (reference->wr_callback) return true;
  }
  return false;  // plain ones may be the guards' own
}

/// Whether the object's end runs code.
bool end_is_seen(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (type->tp_del != nullptr) return true;
  if (PyGen_CheckExact(object) || PyCoro_CheckExact(object)) return dynrun_is_suspended(object) != 0;
  return type->tp_finalize != nullptr || has_weak_callback(object);
}

/// A container's method that may take items out of it.
bool may_let_go(PyObject* method) {
  const CallKind kind = classify_callable(method);
  return kind.call_class != CallClass::kPure && kind.model != Model::kDictGet && kind.model != Model::kListAppend;
}

}  // namespace

bool Recorder::any_item_end_is_seen(PyObject* dict, int levels) {
  Py_ssize_t at = 0;
  PyObject *key, *value;
  for (int count = 0; count < kMaxItems && PyDict_Next(dict, &at, &key, &value); count++) {
    if (any_end_is_seen(value, levels)) return true;
  }
  return false;
}

/// Whether `object`, when its place lets go of it, ends visibly, or something goes with it that does.
bool Recorder::any_end_is_seen(PyObject* object, int levels) {
  if (object == nullptr) return false;
  const Object* known = find(object);
  const Py_ssize_t others = Py_REFCNT(object) - (known && known->hold ? 2 : 1);
  auto is_stored = [&](const PendingEffect& effect) { return effect.value.get() == object; };
  if (others > 0 && others > std::count_if(effects_.begin(), effects_.end(), is_stored)) return false;
  const bool made_here = known && known->known == Known::kFresh;  // its end is part of the recording
  if (!made_here && end_is_seen(object)) return true;
  if (levels == 0) return false;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    PyObject** items = PySequence_Fast_ITEMS(object);
    for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(Py_SIZE(object), kMaxItems); i++) {
      if (any_end_is_seen(items[i], levels - 1)) return true;
    }
  }
  if (PyDict_Check(object)) return any_item_end_is_seen(object, levels - 1);
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  PyObject* attributes = guards::instance_dict(object);
  return attributes != nullptr && any_item_end_is_seen(attributes, levels - 1);
}

bool Recorder::lets_go_visibly(vm::Activation& activation, const Instruction& in) {
  auto seen = [this](PyObject* object) { return any_end_is_seen(object, kMaxLevels); };
  auto item_of = [&](PyObject* dict, PyObject* key) {
    PyObject* item = dict && PyDict_CheckExact(dict) && PyUnicode_CheckExact(key) ? PyDict_GetItemWithError(dict, key) : nullptr;
    return seen(item);
  };
  // What lies in a container that may be changed: which item goes is not worked out.
  auto any_of = [&](PyObject* container) {
    if (container && PyDict_Check(container)) return any_item_end_is_seen(container, kMaxLevels);
    if (!container || !PyList_Check(container)) return false;
    Py_ssize_t count = std::min<Py_ssize_t>(PyList_GET_SIZE(container), kMaxItems);
    return std::any_of(&PyList_GET_ITEM(container, 0), &PyList_GET_ITEM(container, 0) + count, seen);
  };
  auto name = [&] { return PyTuple_GET_ITEM(activation.code->object->co_names, in.argument); };
  switch (in.opcode) {
    case Opcode::kStoreFast:
    case Opcode::kDeleteFast: return seen(activation.locals()[in.argument]);
    case Opcode::kPopTop: return seen(activation.peek(1));
    case Opcode::kDeleteDeref:
    case Opcode::kStoreDeref: {
      PyObject* cell = activation.locals()[in.argument];
      return cell && PyCell_Check(cell) && seen(PyCell_GET(cell));
    }
    case Opcode::kStoreGlobal:
    case Opcode::kStoreName: return item_of(activation.frame->globals, name());
    case Opcode::kStoreAttr:
    case Opcode::kDeleteAttr: return item_of(guards::instance_dict(activation.peek(1)), name());
    case Opcode::kStoreSubscr:
    case Opcode::kDeleteSubscr: return any_of(activation.peek(2));
    case Opcode::kStoreSlice: return any_of(activation.peek(3));
    case Opcode::kCall: {  // a method of the container
      PyObject *callee = activation.peek(in.argument + 2), *self = activation.peek(in.argument + 1);
      if (self && in.argument == 2 && classify_callable(self).model == Model::kDeleteAttribute) return item_of(guards::instance_dict(activation.peek(2)), activation.peek(1));
      if (callee && Py_TYPE(callee) == &PyMethodDescr_Type) return any_of(self) && (may_let_go(callee) || seen(self));
      if (!self || !PyCFunction_Check(self) || !any_of(PyCFunction_GET_SELF(self))) return false;
      return may_let_go(self) || Py_REFCNT(self) == 1;  // of a bound method that ends here its container may end, too
    }
    case Opcode::kReturnValue:
    case Opcode::kReturnConst: {
      if (&activation == base_) return false;
      for (int i = 0; i < activation.code->locals_count; i++) {
        PyObject* local = activation.locals()[i];
        if (local && !PyCell_Check(local) && seen(local)) return true;
      }
      return false;
    }
    default: return false;
  }
}

}  // namespace dynrun::trace
