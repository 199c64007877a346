// Names, globals and attributes.

#include "vm/ops.h"

namespace dynrun::vm {

PyObject* interned(const char* text, PyObject** cache) {
  if (!*cache) *cache = PyUnicode_InternFromString(text);
  return *cache;
}

void raise_unbound_name(PyObject* exception, const char* format, PyObject* name) {
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) return;
  PyErr_Format(exception, format, text);
  if (exception != PyExc_NameError) return;
  // The name goes along, for suggestions.
  PyObject* raised = PyErr_GetRaisedException();
  if (PyErr_GivenExceptionMatches(raised, PyExc_NameError) && !reinterpret_cast<PyNameErrorObject*>(raised)->name) {
    if (PyObject_SetAttr(raised, DYNRUN_NAME("name"), name) < 0) PyErr_Clear();
  }
  PyErr_SetRaisedException(raised);
}

void raise_unbound_slot(PyCodeObject* code, int slot) {
  if (PyErr_Occurred()) return;
  PyObject* name = PyTuple_GET_ITEM(code->co_localsplusnames, slot);
  if (slot < PyCode_GetFirstFree(code)) {
    raise_unbound_name(PyExc_UnboundLocalError, "cannot access local variable '%s' where it is not associated with a value",
                       name);
  } else {
    raise_unbound_name(PyExc_NameError,
                       "cannot access free variable '%s' where it is not associated with a value in enclosing scope", name);
  }
}

namespace {

// scope[name] as a new reference; null without an error when it is missing.
PyObject* find_in(PyObject* scope, PyObject* name) {
  if (PyDict_CheckExact(scope)) return Py_XNewRef(PyDict_GetItemWithError(scope, name));
  PyObject* value = PyObject_GetItem(scope, name);
  if (!value && PyErr_ExceptionMatches(PyExc_KeyError)) PyErr_Clear();
  return value;
}

// A global or builtin (new reference); null with an error set.
PyObject* find_global(python::Frame* frame, PyObject* name) {
  PyObject* globals = frame->globals;
  PyObject* builtins = frame->builtins;
  PyObject* value;
  Py_hash_t hash = reinterpret_cast<PyASCIIObject*>(name)->hash;
  if (PyDict_CheckExact(globals) && PyDict_CheckExact(builtins) && hash != -1) {
    value = _PyDict_GetItem_KnownHash(globals, name, hash);
    if (!value && !PyErr_Occurred()) value = _PyDict_GetItem_KnownHash(builtins, name, hash);
    Py_XINCREF(value);
  } else {
    value = find_in(globals, name);
    if (!value && !PyErr_Occurred()) value = find_in(builtins, name);
  }
  if (!value && !PyErr_Occurred()) raise_unbound_name(PyExc_NameError, kNameMessage, name);
  return value;
}

PyObject* locals_or_error(const Activation& top, const char* message) {
  if (!top.frame->locals) PyErr_SetString(PyExc_SystemError, message);
  return top.frame->locals;
}

}  // namespace

DYNRUN_OP(LoadName) {
  PyObject* locals = locals_or_error(top, "no locals found");
  if (!locals) return Status::kError;
  PyObject* name = name_at(top, instruction.argument);
  PyObject* value = find_in(locals, name);
  if (!value && !PyErr_Occurred()) value = find_global(top.frame, name);
  return push_or_error(top, value);
}

DYNRUN_OP(StoreName) {
  PyObject* name = name_at(top, instruction.argument);
  python::Ref value = python::Ref::steal(top.pop());
  PyObject* locals = top.frame->locals;
  if (!locals) {
    PyErr_Format(PyExc_SystemError, "no locals found when storing %R", name);
    return Status::kError;
  }
  return next_or_error(PyDict_CheckExact(locals) ? PyDict_SetItem(locals, name, value.get())
                                                 : PyObject_SetItem(locals, name, value.get()));
}

DYNRUN_OP(DeleteName) {
  PyObject* name = name_at(top, instruction.argument);
  if (!top.frame->locals) {
    PyErr_Format(PyExc_SystemError, "no locals when deleting %R", name);
    return Status::kError;
  }
  if (PyObject_DelItem(top.frame->locals, name) == 0) return Status::kNext;
  raise_unbound_name(PyExc_NameError, kNameMessage, name);
  return Status::kError;
}

DYNRUN_OP(LoadGlobal) {
  PyObject* value = find_global(top.frame, name_at(top, instruction.argument >> 1));
  if (!value) return Status::kError;
  if (instruction.argument & 1) top.push(nullptr);
  top.push(value);
  return Status::kNext;
}

DYNRUN_OP(StoreGlobal) {
  python::Ref value = python::Ref::steal(top.pop());
  return next_or_error(PyDict_SetItem(top.frame->globals, name_at(top, instruction.argument), value.get()));
}

DYNRUN_OP(DeleteGlobal) {
  PyObject* name = name_at(top, instruction.argument);
  if (PyDict_DelItem(top.frame->globals, name) == 0) return Status::kNext;
  if (PyErr_ExceptionMatches(PyExc_KeyError)) raise_unbound_name(PyExc_NameError, kNameMessage, name);
  return Status::kError;
}

DYNRUN_OP(LoadLocals) {
  return push_or_error(top, Py_XNewRef(locals_or_error(top, "no locals found")));
}

DYNRUN_OP(LoadFromDictOrGlobals) {
  python::Ref scope = python::Ref::steal(top.pop());
  PyObject* name = name_at(top, instruction.argument);
  PyObject* value = find_in(scope.get(), name);
  if (!value && !PyErr_Occurred()) value = find_global(top.frame, name);
  return push_or_error(top, value);
}

DYNRUN_OP(LoadFromDictOrDeref) {
  python::Ref scope = python::Ref::steal(top.pop());
  PyObject* value = find_in(scope.get(), PyTuple_GET_ITEM(top.code->object->co_localsplusnames, instruction.argument));
  if (!value && !PyErr_Occurred()) {
    value = Py_XNewRef(PyCell_GET(top.locals()[instruction.argument]));
    if (!value) raise_unbound_slot(top.code->object, instruction.argument);
  }
  return push_or_error(top, value);
}

DYNRUN_OP(LoadBuildClass) {
  PyObject* value = find_in(top.frame->builtins, DYNRUN_NAME("__build_class__"));
  if (!value && !PyErr_Occurred()) PyErr_SetString(PyExc_NameError, "__build_class__ not found");
  return push_or_error(top, value);
}

DYNRUN_OP(LoadAssertionError) {
  top.push(Py_NewRef(PyExc_AssertionError));
  return Status::kNext;
}

DYNRUN_OP(SetupAnnotations) {
  PyObject* locals = locals_or_error(top, "no locals found when setting up annotations");
  if (!locals) return Status::kError;
  PyObject* name = DYNRUN_NAME("__annotations__");
  python::Ref found = python::Ref::steal(find_in(locals, name));
  if (found) return Status::kNext;
  if (PyErr_Occurred()) return Status::kError;
  python::Ref annotations = python::Ref::steal(PyDict_New());
  if (!annotations) return Status::kError;
  return next_or_error(PyDict_CheckExact(locals) ? PyDict_SetItem(locals, name, annotations.get())
                                                 : PyObject_SetItem(locals, name, annotations.get()));
}

// ---- attributes ----

DYNRUN_OP(LoadAttr) {
  PyObject* name = name_at(top, instruction.argument >> 1);
  PyObject* owner = top.pop();
  if (!vm.observer && !(instruction.argument & 1)) {
    // A property written in Python is called as any function is.
    auto* cache = const_cast<DynrunInlineCache*>(&top.code->caches[instruction.cache]);
    PyObject* value = nullptr;
    switch (dynrun_load_attribute(cache, owner, name, 0, &value)) {
      case kDynrunAttributeGetter:
        if (Machine::is_inlinable(value)) {
          Activation* called = vm.push_call(value, &owner, 1, nullptr, Continuation::kPushResult);
          Py_DECREF(value);
          return called ? vm.began_call() : Status::kError;
        }
        Py_DECREF(value);
        break;
      case kDynrunAttributeValue:
        Py_DECREF(owner);
        top.push(value);
        return Status::kNext;
      default:
        break;
    }
  }
  if (!(instruction.argument & 1)) {
    PyObject* value = PyObject_GetAttr(owner, name);
    Py_DECREF(owner);
    return push_or_error(top, value);
  }
  // A method call follows: [method, self], or [null, callable].
  PyObject* method = nullptr;
  if (_PyObject_GetMethod(owner, name, &method)) {
    top.push(method);
    top.push(owner);
    return Status::kNext;
  }
  Py_DECREF(owner);
  if (!method) return Status::kError;
  top.push(nullptr);
  top.push(method);
  return Status::kNext;
}

DYNRUN_OP(StoreAttr) {
  python::Ref owner = python::Ref::steal(top.pop());
  python::Ref value = python::Ref::steal(top.pop());
  return next_or_error(PyObject_SetAttr(owner.get(), name_at(top, instruction.argument), value.get()));
}

DYNRUN_OP(DeleteAttr) {
  python::Ref owner = python::Ref::steal(top.pop());
  return next_or_error(PyObject_SetAttr(owner.get(), name_at(top, instruction.argument), nullptr));
}

DYNRUN_OP(LoadSuperAttr) {
  python::Ref self = python::Ref::steal(top.pop());
  python::Ref type = python::Ref::steal(top.pop());
  python::Ref super = python::Ref::steal(top.pop());
  PyObject* arguments[] = {type.get(), self.get()};
  // Without arguments `super` reads the same two from the frame; given to it, nothing has to be looked for.
  bool plain = super.get() == reinterpret_cast<PyObject*>(&PySuper_Type) && PyType_Check(type.get());
  PyObject* name = name_at(top, instruction.argument >> 2);
  if (plain && !vm.observer) {  // an observer knows the one form on the stack
    PyObject* found = nullptr;
    bool method = instruction.argument & 1;
    switch (dynrun_load_super_attribute(reinterpret_cast<PyTypeObject*>(type.get()), self.get(), name, method, &found)) {
      case kDynrunAttributeMethod:
        top.push(found);
        top.push(self.release());
        return Status::kNext;
      case kDynrunAttributeValue:
        if (method) top.push(nullptr);
        top.push(found);
        return Status::kNext;
      default:
        break;
    }
  }
  std::size_t count = plain || (instruction.argument & 2) ? 2 : 0;
  python::Ref object = python::Ref::steal(PyObject_Vectorcall(super.get(), arguments, count, nullptr));
  if (!object) return Status::kError;
  PyObject* value = PyObject_GetAttr(object.get(), name);
  if (!value) return Status::kError;
  if (instruction.argument & 1) top.push(nullptr);
  top.push(value);
  return Status::kNext;
}

}  // namespace dynrun::vm
