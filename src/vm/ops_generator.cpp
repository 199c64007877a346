// Generators, coroutines and asynchronous iteration.

#include "vm/ops.h"

namespace dynrun::vm {

// A generator function's own frame runs in CPython (see is_wanted); an observer that pushed one gets it made there too.
DYNRUN_OP(ReturnGenerator) {
  return Status::kRetreat;
}

DYNRUN_OP(YieldValue) {
  return vm.yield(top.pop());
}

DYNRUN_OP(Send) {
  PyObject* sent = top.peek(1);
  PyObject* receiver = top.peek(2);
  PyObject* value = nullptr;
  bool finished = false;
  if (PyGen_CheckExact(receiver) || PyCoro_CheckExact(receiver)) {
    --top.stack_pointer;
    Status status;
    if (vm.resume_inside(receiver, sent, Resumption::kSend, &status)) return status;
    ++top.stack_pointer;
  }
  if (PyGen_CheckExact(receiver) || PyCoro_CheckExact(receiver)) {
    PySendResult result = PyIter_Send(receiver, sent, &value);
    finished = result == PYGEN_RETURN;
  } else {
    value = sent == Py_None && PyIter_Check(receiver) ? Py_TYPE(receiver)->tp_iternext(receiver)
                                                      : PyObject_CallMethodOneArg(receiver, DYNRUN_NAME("send"), sent);
    finished = !value && _PyGen_FetchStopIterationValue(&value) == 0;
  }
  if (!value) return Status::kError;
  Py_DECREF(top.pop());
  top.push(value);
  if (finished) top.pc = instruction.argument;
  return Status::kNext;
}

DYNRUN_OP(GetYieldFromIter) {
  PyObject* iterable = top.peek(1);
  if (PyCoro_CheckExact(iterable)) {
    if (top.code->object->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE)) return Status::kNext;
    PyErr_SetString(PyExc_TypeError, "cannot 'yield from' a coroutine object in a non-coroutine generator");
    return Status::kError;
  }
  if (PyGen_CheckExact(iterable)) return Status::kNext;
  PyObject* iterator = PyObject_GetIter(iterable);
  if (!iterator) return Status::kError;
  Py_DECREF(top.pop());
  top.push(iterator);
  return Status::kNext;
}

DYNRUN_OP(GetAwaitable) {
  python::Ref object = python::Ref::steal(top.pop());
  PyTypeObject* type = Py_TYPE(object.get());
  python::Ref iterator = python::Ref::steal(dynrun_awaitable_iterator(object.get()));
  if (!iterator && (!type->tp_as_async || !type->tp_as_async->am_await)) {
    if (instruction.argument == 1) {
      PyErr_Format(PyExc_TypeError, "'async with' received an object from __aenter__ that does not implement __await__: %.100s",
                   type->tp_name);
    } else if (instruction.argument == 2) {
      PyErr_Format(PyExc_TypeError, "'async with' received an object from __aexit__ that does not implement __await__: %.100s",
                   type->tp_name);
    }
  }
  if (!iterator) return Status::kError;
  if (PyCoro_CheckExact(iterator.get())) {
    python::Ref waiting_for = python::Ref::steal(dynrun_waiting_for(iterator.get()));
    if (waiting_for) {
      PyErr_SetString(PyExc_RuntimeError, "coroutine is being awaited already");
      return Status::kError;
    }
  }
  top.push(iterator.release());
  return Status::kNext;
}

DYNRUN_OP(GetAiter) {
  python::Ref object = python::Ref::steal(top.pop());
  PyTypeObject* type = Py_TYPE(object.get());
  unaryfunc getter = type->tp_as_async ? type->tp_as_async->am_aiter : nullptr;
  if (!getter) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an object with __aiter__ method, got %.100s", type->tp_name);
    return Status::kError;
  }
  python::Ref iterator = python::Ref::steal(getter(object.get()));
  if (!iterator) return Status::kError;
  PyTypeObject* iterator_type = Py_TYPE(iterator.get());
  if (!iterator_type->tp_as_async || !iterator_type->tp_as_async->am_anext) {
    PyErr_Format(PyExc_TypeError, "'async for' received an object from __aiter__ that does not implement __anext__: %.100s",
                 iterator_type->tp_name);
    return Status::kError;
  }
  top.push(iterator.release());
  return Status::kNext;
}

DYNRUN_OP(GetAnext) {
  PyObject* iterator = top.peek(1);
  PyTypeObject* type = Py_TYPE(iterator);
  unaryfunc getter = type->tp_as_async ? type->tp_as_async->am_anext : nullptr;
  if (!getter) {
    PyErr_Format(PyExc_TypeError, "'async for' requires an iterator with __anext__ method, got %.100s", type->tp_name);
    return Status::kError;
  }
  python::Ref next = python::Ref::steal(getter(iterator));
  if (!next) return Status::kError;
  if (PyAsyncGen_CheckExact(iterator)) return push_or_error(top, next.release());
  PyObject* awaitable = dynrun_awaitable_iterator(next.get());
  if (!awaitable) {
    _PyErr_FormatFromCause(PyExc_TypeError, "'async for' received an invalid object from __anext__: %.100s",
                           Py_TYPE(next.get())->tp_name);
  }
  return push_or_error(top, awaitable);
}

}  // namespace dynrun::vm
