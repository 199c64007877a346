// Building and unpacking containers and strings.

#include "vm/ops.h"

namespace dynrun::vm {
namespace {

// Takes `count` values off the stack.
void release(Activation& top, int count) {
  for (int i = 0; i < count; ++i) Py_DECREF(top.pop());
}

Status build_map(Activation& top, PyObject* const* keys, int key_step, PyObject* const* values, int value_step, int count,
                 int used) {
  PyObject* map = _PyDict_NewPresized(count);
  for (int i = 0; map && i < count; ++i) {
    if (PyDict_SetItem(map, keys[i * key_step], values[i * value_step]) < 0) Py_CLEAR(map);
  }
  release(top, used);
  return push_or_error(top, map);
}

// Spreads `sequence` over `before` values, then, unless `after` is -1, a list and `after` values; the first one is to be on
// top, so they are written downwards from `top_slot`.
bool unpack(PyObject* sequence, int before, int after, PyObject** top_slot) {
  python::Ref iterator = python::Ref::steal(PyObject_GetIter(sequence));
  if (!iterator) {
    if (PyErr_ExceptionMatches(PyExc_TypeError) && !Py_TYPE(sequence)->tp_iter && !PySequence_Check(sequence)) {
      PyErr_Format(PyExc_TypeError, "cannot unpack non-iterable %.200s object", Py_TYPE(sequence)->tp_name);
    }
    return false;
  }
  PyObject** slot = top_slot;
  auto fail = [&] {
    while (slot < top_slot) Py_DECREF(*slot++);
    return false;
  };
  for (int i = 0; i < before; ++i) {
    PyObject* item = PyIter_Next(iterator.get());
    if (!item) {
      if (!PyErr_Occurred() && after == -1) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected %d, got %d)", before, i);
      } else if (!PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %d)", before + after, i);
      }
      return fail();
    }
    *--slot = item;
  }
  if (after == -1) {
    PyObject* excess = PyIter_Next(iterator.get());
    if (!excess) return PyErr_Occurred() ? fail() : true;
    Py_DECREF(excess);
    PyErr_Format(PyExc_ValueError, "too many values to unpack (expected %d)", before);
    return fail();
  }
  PyObject* list = PySequence_List(iterator.get());
  if (!list) return fail();
  *--slot = list;
  Py_ssize_t length = PyList_GET_SIZE(list);
  if (length < after) {
    PyErr_Format(PyExc_ValueError, "not enough values to unpack (expected at least %d, got %zd)", before + after,
                 before + length);
    return fail();
  }
  for (int i = after; i > 0; --i) *--slot = PyList_GET_ITEM(list, length - i);
  Py_SET_SIZE(list, length - after);
  return true;
}

void raise_not_iterable(PyObject* iterable) {
  if (!PyErr_ExceptionMatches(PyExc_TypeError) || Py_TYPE(iterable)->tp_iter || PySequence_Check(iterable)) return;
  PyErr_Clear();
  PyErr_Format(PyExc_TypeError, "Value after * must be an iterable, not %.200s", Py_TYPE(iterable)->tp_name);
}

// The errors of `f(**mapping)`, in terms of the call.
void raise_keywords_error(PyObject* function, PyObject* mapping) {
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    python::Ref raised = python::Ref::steal(PyErr_GetRaisedException());
    python::Ref name = python::Ref::steal(_PyObject_FunctionStr(function));
    if (name) {
      PyErr_Format(PyExc_TypeError, "%U argument after ** must be a mapping, not %.200s", name.get(),
                   Py_TYPE(mapping)->tp_name);
    }
  } else if (PyErr_ExceptionMatches(PyExc_KeyError)) {
    python::Ref raised = python::Ref::steal(PyErr_GetRaisedException());
    PyObject* arguments = reinterpret_cast<PyBaseExceptionObject*>(raised.get())->args;
    if (!arguments || !PyTuple_Check(arguments) || PyTuple_GET_SIZE(arguments) != 1) {
      PyErr_SetRaisedException(raised.release());
      return;
    }
    python::Ref name = python::Ref::steal(_PyObject_FunctionStr(function));
    if (name) {
      PyErr_Format(PyExc_TypeError, "%U got multiple values for keyword argument '%S'", name.get(),
                   PyTuple_GET_ITEM(arguments, 0));
    }
  }
}

}  // namespace

DYNRUN_OP(BuildTuple) {
  int count = instruction.argument;
  PyObject* tuple = PyTuple_New(count);
  if (!tuple) return Status::kError;
  top.stack_pointer -= count;
  for (int i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple, i, top.stack_pointer[i]);
  top.push(tuple);
  return Status::kNext;
}

DYNRUN_OP(BuildList) {
  int count = instruction.argument;
  PyObject* list = PyList_New(count);
  if (!list) return Status::kError;
  top.stack_pointer -= count;
  for (int i = 0; i < count; ++i) PyList_SET_ITEM(list, i, top.stack_pointer[i]);
  top.push(list);
  return Status::kNext;
}

DYNRUN_OP(BuildSet) {
  int count = instruction.argument;
  PyObject* set = PySet_New(nullptr);
  if (!set) return Status::kError;
  PyObject** values = top.stack_pointer - count;
  int failed = 0;
  for (int i = 0; i < count && failed == 0; ++i) failed = PySet_Add(set, values[i]);
  release(top, count);
  if (failed != 0) Py_CLEAR(set);
  return push_or_error(top, set);
}

DYNRUN_OP(BuildMap) {
  int count = instruction.argument;
  PyObject** items = top.stack_pointer - 2 * count;
  return build_map(top, items, 2, items + 1, 2, count, 2 * count);
}

DYNRUN_OP(BuildConstKeyMap) {
  int count = instruction.argument;
  PyObject* keys = top.peek(1);
  if (!PyTuple_CheckExact(keys) || PyTuple_GET_SIZE(keys) != count) {
    PyErr_SetString(PyExc_SystemError, "bad BUILD_CONST_KEY_MAP keys argument");
    return Status::kError;
  }
  PyObject** values = top.stack_pointer - 1 - count;
  return build_map(top, reinterpret_cast<PyTupleObject*>(keys)->ob_item, 1, values, 1, count, count + 1);
}

DYNRUN_OP(BuildString) {
  int count = instruction.argument;
  static PyObject* const empty = PyUnicode_FromStringAndSize(nullptr, 0);
  PyObject* text = _PyUnicode_JoinArray(empty, top.stack_pointer - count, count);
  release(top, count);
  return push_or_error(top, text);
}

DYNRUN_OP(BuildSlice) {
  python::Ref step = python::Ref::steal(instruction.argument == 3 ? top.pop() : nullptr);
  python::Ref stop = python::Ref::steal(top.pop());
  python::Ref start = python::Ref::steal(top.pop());
  return push_or_error(top, PySlice_New(start.get(), stop.get(), step.get()));
}

DYNRUN_OP(FormatValue) {
  python::Ref spec = python::Ref::steal(instruction.argument & 4 ? top.pop() : nullptr);
  python::Ref value = python::Ref::steal(top.pop());
  switch (instruction.argument & 3) {
    case 1:
      value = python::Ref::steal(PyObject_Str(value.get()));
      break;
    case 2:
      value = python::Ref::steal(PyObject_Repr(value.get()));
      break;
    case 3:
      value = python::Ref::steal(PyObject_ASCII(value.get()));
      break;
    default:
      break;
  }
  if (!value) return Status::kError;
  if (PyUnicode_CheckExact(value.get()) && !spec) return push_or_error(top, value.release());
  return push_or_error(top, PyObject_Format(value.get(), spec.get()));
}

DYNRUN_OP(ListAppend) {
  python::Ref value = python::Ref::steal(top.pop());
  return next_or_error(PyList_Append(top.peek(instruction.argument), value.get()));
}

DYNRUN_OP(ListExtend) {
  python::Ref iterable = python::Ref::steal(top.pop());
  auto* list = reinterpret_cast<PyListObject*>(top.peek(instruction.argument));
  python::Ref none = python::Ref::steal(_PyList_Extend(list, iterable.get()));
  if (none) return Status::kNext;
  raise_not_iterable(iterable.get());
  return Status::kError;
}

DYNRUN_OP(SetAdd) {
  python::Ref value = python::Ref::steal(top.pop());
  return next_or_error(PySet_Add(top.peek(instruction.argument), value.get()));
}

DYNRUN_OP(SetUpdate) {
  python::Ref iterable = python::Ref::steal(top.pop());
  return next_or_error(_PySet_Update(top.peek(instruction.argument), iterable.get()));
}

DYNRUN_OP(MapAdd) {
  python::Ref value = python::Ref::steal(top.pop());
  python::Ref key = python::Ref::steal(top.pop());
  return next_or_error(PyDict_SetItem(top.peek(instruction.argument), key.get(), value.get()));
}

DYNRUN_OP(DictUpdate) {
  python::Ref update = python::Ref::steal(top.pop());
  if (PyDict_Update(top.peek(instruction.argument), update.get()) == 0) return Status::kNext;
  if (PyErr_ExceptionMatches(PyExc_AttributeError)) {
    PyErr_Format(PyExc_TypeError, "'%.200s' object is not a mapping", Py_TYPE(update.get())->tp_name);
  }
  return Status::kError;
}

DYNRUN_OP(DictMerge) {
  python::Ref update = python::Ref::steal(top.pop());
  if (_PyDict_MergeEx(top.peek(instruction.argument), update.get(), 2) == 0) return Status::kNext;
  raise_keywords_error(top.peek(instruction.argument + 2), update.get());
  return Status::kError;
}

DYNRUN_OP(UnpackSequence) {
  int count = instruction.argument;
  PyObject* sequence = top.pop();
  bool is_tuple = PyTuple_CheckExact(sequence);
  bool done = true;
  if ((is_tuple || PyList_CheckExact(sequence)) && Py_SIZE(sequence) == count) {
    PyObject** items =
        is_tuple ? reinterpret_cast<PyTupleObject*>(sequence)->ob_item : reinterpret_cast<PyListObject*>(sequence)->ob_item;
    for (int i = 0; i < count; ++i) top.stack_pointer[i] = Py_NewRef(items[count - 1 - i]);
  } else {
    done = unpack(sequence, count, -1, top.stack_pointer + count);
  }
  if (done) top.stack_pointer += count;
  Py_DECREF(sequence);
  return done ? Status::kNext : Status::kError;
}

DYNRUN_OP(UnpackEx) {
  int before = instruction.argument & 0xFF;
  int after = instruction.argument >> 8;
  PyObject* sequence = top.pop();
  bool done = unpack(sequence, before, after, top.stack_pointer + before + 1 + after);
  if (done) top.stack_pointer += before + 1 + after;
  Py_DECREF(sequence);
  return done ? Status::kNext : Status::kError;
}

}  // namespace dynrun::vm
