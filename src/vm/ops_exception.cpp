// Raising, handling, context managers.

#include "vm/ops.h"

namespace dynrun::vm {
namespace {

constexpr const char* kCannotCatch = "catching classes that do not inherit from BaseException is not allowed";
constexpr const char* kCannotCatchGroup = "catching ExceptionGroup with except* is not allowed. Use except instead.";

PyObject* instance_of(PyObject* type) {
  PyObject* value = PyObject_CallNoArgs(type);
  if (value && !PyExceptionInstance_Check(value)) {
    PyErr_Format(PyExc_TypeError, "calling %R should have returned an instance of BaseException, not %R", type, Py_TYPE(value));
    Py_CLEAR(value);
  }
  return value;
}

// `raise exception from cause`: always ends with an error set.
void raise(PyObject* exception, PyObject* cause) {
  python::Ref value, type;
  if (PyExceptionClass_Check(exception)) {
    type = python::Ref::borrow(exception);
    value = python::Ref::steal(instance_of(exception));
    if (!value) return;
  } else if (PyExceptionInstance_Check(exception)) {
    value = python::Ref::borrow(exception);
    type = python::Ref::borrow(PyExceptionInstance_Class(exception));
  } else {
    PyErr_SetString(PyExc_TypeError, "exceptions must derive from BaseException");
    return;
  }
  if (cause) {
    PyObject* fixed = nullptr;
    if (PyExceptionClass_Check(cause)) {
      fixed = instance_of(cause);
      if (!fixed) return;
    } else if (PyExceptionInstance_Check(cause)) {
      fixed = Py_NewRef(cause);
    } else if (cause != Py_None) {
      PyErr_SetString(PyExc_TypeError, "exception causes must derive from BaseException");
      return;
    }
    PyException_SetCause(value.get(), fixed);
  }
  PyErr_SetObject(type.get(), value.get());
}

bool is_catchable(PyObject* type) {
  bool valid = true;
  if (PyTuple_Check(type)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type); ++i) valid = valid && PyExceptionClass_Check(PyTuple_GET_ITEM(type, i));
  } else {
    valid = PyExceptionClass_Check(type);
  }
  if (!valid) PyErr_SetString(PyExc_TypeError, kCannotCatch);
  return valid;
}

bool is_catchable_by_star(PyObject* type) {
  if (!is_catchable(type)) return false;
  int is_group = 0;
  if (PyTuple_Check(type)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(type) && is_group == 0; ++i) {
      is_group = PyObject_IsSubclass(PyTuple_GET_ITEM(type, i), PyExc_BaseExceptionGroup);
    }
  } else {
    is_group = PyObject_IsSubclass(type, PyExc_BaseExceptionGroup);
  }
  if (is_group > 0) PyErr_SetString(PyExc_TypeError, kCannotCatchGroup);
  return is_group == 0;
}

bool is_group(PyObject* exception) {
  return PyObject_TypeCheck(exception, reinterpret_cast<PyTypeObject*>(PyExc_BaseExceptionGroup));
}

// Splits `exception` for `except* type`. False: an error is set.
bool match_group(PyObject* exception, PyObject* type, python::Ref* match, python::Ref* rest) {
  *match = python::Ref::borrow(Py_None);
  *rest = python::Ref::borrow(Py_None);
  if (exception == Py_None) return true;
  if (PyErr_GivenExceptionMatches(exception, type)) {
    if (is_group(exception)) {
      *match = python::Ref::borrow(exception);
      return true;
    }
    python::Ref members = python::Ref::steal(PyTuple_Pack(1, exception));
    if (!members) return false;
    *match = python::Ref::steal(_PyExc_CreateExceptionGroup("", members.get()));
    return static_cast<bool>(*match);
  }
  if (!is_group(exception)) {
    *rest = python::Ref::borrow(exception);
    return true;
  }
  python::Ref pair = python::Ref::steal(PyObject_CallMethod(exception, "split", "(O)", type));
  if (!pair) return false;
  if (!PyTuple_CheckExact(pair.get()) || PyTuple_GET_SIZE(pair.get()) != 2) {
    PyErr_Format(PyExc_TypeError, "%.200s.split must return a 2-tuple", Py_TYPE(exception)->tp_name);
    return false;
  }
  *match = python::Ref::borrow(PyTuple_GET_ITEM(pair.get(), 0));
  *rest = python::Ref::borrow(PyTuple_GET_ITEM(pair.get(), 1));
  return true;
}

Status enter(Activation& top, PyObject* enter_name, PyObject* exit_name, const char* protocol, const char* exit_text) {
  PyObject* manager = top.peek(1);
  python::Ref enter = python::Ref::steal(_PyObject_LookupSpecial(manager, enter_name));
  if (!enter) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %s protocol", Py_TYPE(manager)->tp_name, protocol);
    }
    return Status::kError;
  }
  python::Ref exit = python::Ref::steal(_PyObject_LookupSpecial(manager, exit_name));
  if (!exit) {
    if (!PyErr_Occurred()) {
      PyErr_Format(PyExc_TypeError, "'%.200s' object does not support the %s protocol (missed %s method)",
                   Py_TYPE(manager)->tp_name, protocol, exit_text);
    }
    return Status::kError;
  }
  Py_DECREF(top.pop());
  PyObject* result = PyObject_CallNoArgs(enter.get());
  if (!result) return Status::kError;
  top.push(exit.release());
  top.push(result);
  return Status::kNext;
}

Status reraise(PyObject* exception) {
  PyErr_SetRaisedException(Py_NewRef(exception));
  return Status::kUnwind;
}

}  // namespace

DYNRUN_OP(RaiseVarargs) {
  if (instruction.argument == 0) {
    PyObject* handled = PyErr_GetHandledException();
    if (handled && handled != Py_None) {
      PyErr_SetRaisedException(handled);
      return Status::kUnwind;
    }
    Py_XDECREF(handled);
    PyErr_SetString(PyExc_RuntimeError, "No active exception to reraise");
    return Status::kError;
  }
  python::Ref cause = python::Ref::steal(instruction.argument == 2 ? top.pop() : nullptr);
  python::Ref exception = python::Ref::steal(top.pop());
  raise(exception.get(), cause.get());
  return Status::kError;
}

DYNRUN_OP(Reraise) {
  if (instruction.argument) {
    PyObject* last = top.peek(instruction.argument + 1);
    if (!PyLong_Check(last)) {
      PyErr_SetString(PyExc_SystemError, "lasti is not an int");
      return Status::kError;
    }
    top.frame->previous_instruction = code_units(top.frame->code) + PyLong_AsLong(last);
  }
  return reraise(top.peek(1));
}

DYNRUN_OP(PushExcInfo) {
  PyObject* raised = top.pop();
  _PyErr_StackItem* handled = vm.thread->exc_info;
  top.push(handled->exc_value ? handled->exc_value : Py_NewRef(Py_None));
  top.push(raised);
  handled->exc_value = Py_NewRef(raised);
  return Status::kNext;
}

DYNRUN_OP(PopExcept) {
  PyObject* before = std::exchange(vm.thread->exc_info->exc_value, top.pop());
  Py_XDECREF(before);
  return Status::kNext;
}

DYNRUN_OP(CheckExcMatch) {
  python::Ref type = python::Ref::steal(top.pop());
  if (!is_catchable(type.get())) return Status::kError;
  int matches = PyErr_GivenExceptionMatches(top.peek(1), type.get());
  top.push(Py_NewRef(matches ? Py_True : Py_False));
  return Status::kNext;
}

DYNRUN_OP(CheckEgMatch) {
  python::Ref type = python::Ref::steal(top.pop());
  python::Ref exception = python::Ref::steal(top.pop());
  python::Ref match, rest;
  if (!is_catchable_by_star(type.get()) || !match_group(exception.get(), type.get(), &match, &rest)) return Status::kError;
  if (match.get() != Py_None) PyErr_SetHandledException(match.get());
  top.push(rest.release());
  top.push(match.release());
  return Status::kNext;
}

DYNRUN_OP(WithExceptStart) {
  // The stack: exit function, lasti, previous exception, exception.
  PyObject* exception = top.peek(1);
  python::Ref traceback = python::Ref::steal(PyException_GetTraceback(exception));
  PyObject* arguments[] = {nullptr, PyExceptionInstance_Class(exception), exception, traceback ? traceback.get() : Py_None};
  return push_or_error(top, PyObject_Vectorcall(top.peek(4), arguments + 1, 3 | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr));
}

DYNRUN_OP(BeforeWith) {
  return enter(top, DYNRUN_NAME("__enter__"), DYNRUN_NAME("__exit__"), "context manager", "__exit__");
}

DYNRUN_OP(BeforeAsyncWith) {
  return enter(top, DYNRUN_NAME("__aenter__"), DYNRUN_NAME("__aexit__"), "asynchronous context manager", "__aexit__");
}

DYNRUN_OP(EndAsyncFor) {
  PyObject* exception = top.peek(1);
  if (!PyErr_GivenExceptionMatches(exception, PyExc_StopAsyncIteration)) return reraise(exception);
  Py_DECREF(top.pop());
  Py_DECREF(top.pop());
  return Status::kNext;
}

DYNRUN_OP(CleanupThrow) {
  // The stack: sub-iterator, last value sent, exception; a StopIteration's value takes their place.
  PyObject* exception = top.peek(1);
  if (!PyErr_GivenExceptionMatches(exception, PyExc_StopIteration)) return reraise(exception);
  PyObject* value = Py_NewRef(reinterpret_cast<PyStopIterationObject*>(exception)->value);
  for (int i = 0; i < 3; ++i) Py_DECREF(top.pop());
  top.push(Py_NewRef(Py_None));
  top.push(value);
  return Status::kNext;
}

}  // namespace dynrun::vm
