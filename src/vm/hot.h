#pragma once
// The opcodes that make up most of what runs, inline, with pc and stack pointer in registers. Each does what its function in
// ops_*.cpp does, on the cases that need no call out; anything else is left to that function, untouched.

#include "vm/interpreter.h"

namespace dynrun::vm {

inline bool both_small_ints(PyObject* left, PyObject* right) {
  return PyLong_CheckExact(left) && PyLong_CheckExact(right) &&
         PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(left)) &&
         PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(right));
}

inline long small_int(PyObject* object) {
  return static_cast<long>(PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject*>(object)));
}

/// left OP right where both are small ints or floats and nothing can fail but memory. Null without an error: not such a case.
inline PyObject* fast_arithmetic(int operation, PyObject* left, PyObject* right) {
  constexpr int kAdd = 0, kMultiply = 5, kSubtract = 10, kInPlace = 13;
  int plain = operation >= kInPlace ? operation - kInPlace : operation;
  if (both_small_ints(left, right)) {
    long a = small_int(left), b = small_int(right);  // 30 bits: no overflow
    switch (plain) {
      case kAdd:
        return PyLong_FromLong(a + b);
      case kSubtract:
        return PyLong_FromLong(a - b);
      case kMultiply:
        return PyLong_FromLong(a * b);
      default:
        return nullptr;
    }
  }
  if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right)) {
    double a = PyFloat_AS_DOUBLE(left), b = PyFloat_AS_DOUBLE(right);
    switch (plain) {
      case kAdd:
        return PyFloat_FromDouble(a + b);
      case kSubtract:
        return PyFloat_FromDouble(a - b);
      case kMultiply:
        return PyFloat_FromDouble(a * b);
      default:
        return nullptr;
    }
  }
  return nullptr;
}

template <typename Number>
bool compares(int comparison, Number a, Number b) {
  switch (comparison) {
    case Py_LT:
      return a < b;
    case Py_LE:
      return a <= b;
    case Py_EQ:
      return a == b;
    case Py_NE:
      return a != b;
    case Py_GT:
      return a > b;
    default:
      return a >= b;
  }
}

/// left < right and so on of small ints and floats: True, False (borrowed), or null: not such a case.
inline PyObject* fast_comparison(int comparison, PyObject* left, PyObject* right) {
  if (both_small_ints(left, right)) return compares(comparison, small_int(left), small_int(right)) ? Py_True : Py_False;
  if (PyFloat_CheckExact(left) && PyFloat_CheckExact(right)) {
    return compares(comparison, PyFloat_AS_DOUBLE(left), PyFloat_AS_DOUBLE(right)) ? Py_True : Py_False;
  }
  return nullptr;
}

/// What the opcodes here see of the running frame.
struct HotFrame {
  const Interpreter& vm;
  PyObject** const locals;
  PyCodeObject* const code;
  DynrunInlineCache* const caches;
  python::Frame* const frame;
};

enum class HotResult : std::uint8_t {
  kSlow,   // nothing was done: the opcode's own function is to run
  kDone,   // `pc` and `sp` are moved on
  kError,  // an error is set, the operands are gone
};

/// The item that a list or tuple holds at a small int (borrowed), what a dict holds, or null without an error: not such a case.
inline PyObject* fast_item(PyObject* container, PyObject* key) {
  if (PyLong_CheckExact(key)) {
    bool list = PyList_CheckExact(container);
    if (list || PyTuple_CheckExact(container)) {
      if (!PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(key))) return nullptr;
      long index = small_int(key);
      if (index < 0) index += Py_SIZE(container);
      if (index < 0 || index >= Py_SIZE(container)) return nullptr;
      return list ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index);
    }
  }
  return nullptr;
}

/// LOAD_ATTR by its cache.
inline HotResult hot_load_attribute(const HotFrame& hot, const bytecode::Instruction& instruction, PyObject**& sp) {
  PyObject* owner = sp[-1];
  PyObject* name = PyTuple_GET_ITEM(hot.code->co_names, instruction.argument >> 1);
  PyObject* value;
  bool method = instruction.argument & 1;
  switch (dynrun_load_attribute(&hot.caches[instruction.cache], owner, name, method, &value)) {
    case kDynrunAttributeValue:
      if (method) *(sp++ - 1) = nullptr;
      sp[-1] = value;
      Py_DECREF(owner);
      return HotResult::kDone;
    case kDynrunAttributeMethod:
      sp[-1] = value;
      *sp++ = owner;
      return HotResult::kDone;
    case kDynrunAttributeGetter:
      Py_DECREF(value);
      return HotResult::kSlow;
    default:
      return HotResult::kSlow;
  }
}

/// FOR_ITER over iterators of C's own.
inline HotResult hot_for_iter(const bytecode::Instruction& instruction, std::int32_t& pc, PyObject**& sp) {
  PyObject* iterator = sp[-1];
  PyTypeObject* type = Py_TYPE(iterator);
  if (type == &PyGen_Type) return HotResult::kSlow;
  PyObject* next = type->tp_iternext(iterator);
  if (next) {
    *sp++ = next;
    return HotResult::kDone;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return HotResult::kError;
    PyErr_Clear();
  }
  --sp;
  pc = instruction.argument + 1;  // behind the END_FOR
  Py_DECREF(iterator);
  return HotResult::kDone;
}

/// UNPACK_SEQUENCE of a tuple or list of that length.
inline HotResult hot_unpack(const bytecode::Instruction& instruction, PyObject**& sp) {
  PyObject* sequence = sp[-1];
  Py_ssize_t count = instruction.argument;
  PyObject** items;
  if (PyTuple_CheckExact(sequence)) {
    items = reinterpret_cast<PyTupleObject*>(sequence)->ob_item;
  } else if (PyList_CheckExact(sequence)) {
    items = reinterpret_cast<PyListObject*>(sequence)->ob_item;
  } else {
    return HotResult::kSlow;
  }
  if (Py_SIZE(sequence) != count) return HotResult::kSlow;
  --sp;
  for (Py_ssize_t i = count; i-- > 0;) *sp++ = Py_NewRef(items[i]);
  Py_DECREF(sequence);
  return HotResult::kDone;
}

/// container[key] = value for a list's item and a dict; sp points behind value, container, key.
inline HotResult hot_store_item(PyObject**& sp) {
  PyObject *key = sp[-1], *container = sp[-2], *value = sp[-3];
  if (PyDict_CheckExact(container)) {
    sp -= 3;
    int stored = PyDict_SetItem(container, key, value);
    Py_DECREF(value);
    Py_DECREF(container);
    Py_DECREF(key);
    return stored < 0 ? HotResult::kError : HotResult::kDone;
  }
  if (!PyList_CheckExact(container) || !fast_item(container, key)) return HotResult::kSlow;
  long index = small_int(key);
  if (index < 0) index += Py_SIZE(container);
  PyObject* before = PyList_GET_ITEM(container, index);
  sp -= 3;
  PyList_SET_ITEM(container, index, value);
  Py_DECREF(key);
  Py_DECREF(before);
  Py_DECREF(container);
  return HotResult::kDone;
}

inline HotResult replace_two(PyObject**& sp, PyObject* value) {
  PyObject *left = sp[-2], *right = sp[-1];
  --sp;
  sp[-1] = value;
  Py_DECREF(left);
  Py_DECREF(right);
  return HotResult::kDone;
}

/// Runs `instruction` here if it is one of the hot ones and in an easy case. The frame's line is up to date: what frees an
/// object may run any code.
inline HotResult run_hot(const HotFrame& hot, const bytecode::Instruction& instruction, std::int32_t& pc, PyObject**& sp) {
  using bytecode::Opcode;
  constexpr HotResult kSlow = HotResult::kSlow, kDone = HotResult::kDone;
  PyObject** const locals = hot.locals;
  switch (instruction.opcode) {
    case Opcode::kLoadFast:
      *sp++ = Py_NewRef(locals[instruction.argument]);
      return kDone;
    case Opcode::kLoadFastCheck:
      if (!locals[instruction.argument]) return kSlow;
      *sp++ = Py_NewRef(locals[instruction.argument]);
      return kDone;
    case Opcode::kLoadConst:
      *sp++ = Py_NewRef(PyTuple_GET_ITEM(hot.code->co_consts, instruction.argument));
      return kDone;
    case Opcode::kLoadDeref: {
      PyObject* value = PyCell_GET(locals[instruction.argument]);
      if (!value) return kSlow;
      *sp++ = Py_NewRef(value);
      return kDone;
    }
    case Opcode::kLoadGlobal: {
      PyObject* name = PyTuple_GET_ITEM(hot.code->co_names, instruction.argument >> 1);
      PyObject* value = dynrun_load_global(&hot.caches[instruction.cache], hot.frame->globals, hot.frame->builtins, name);
      if (!value) return kSlow;
      if (instruction.argument & 1) *sp++ = nullptr;
      *sp++ = value;
      return kDone;
    }
    case Opcode::kLoadAttr:
      return hot_load_attribute(hot, instruction, sp);
    case Opcode::kStoreAttr: {
      PyObject *owner = sp[-1], *value = sp[-2];
      PyObject* name = PyTuple_GET_ITEM(hot.code->co_names, instruction.argument);
      if (!dynrun_store_attribute(&hot.caches[instruction.cache], owner, name, value)) return kSlow;
      sp -= 2;
      Py_DECREF(owner);
      Py_DECREF(value);
      return kDone;
    }
    case Opcode::kPushNull:
      *sp++ = nullptr;
      return kDone;
    case Opcode::kCopy: {
      PyObject* value = Py_XNewRef(sp[-instruction.argument]);
      *sp++ = value;
      return kDone;
    }
    case Opcode::kSwap:
      std::swap(sp[-1], sp[-instruction.argument]);
      return kDone;
    case Opcode::kStoreFast: {
      PyObject* before = locals[instruction.argument];
      locals[instruction.argument] = *--sp;
      Py_XDECREF(before);
      return kDone;
    }
    case Opcode::kPopTop:
      --sp;
      Py_DECREF(*sp);
      return kDone;
    case Opcode::kPopJumpIfNone:
    case Opcode::kPopJumpIfNotNone: {
      PyObject* value = *--sp;
      if ((value == Py_None) == (instruction.opcode == Opcode::kPopJumpIfNone)) pc = instruction.argument;
      Py_DECREF(value);
      return kDone;
    }
    case Opcode::kNop:
      return kDone;
    case Opcode::kJumpForward:
    case Opcode::kJumpBackwardNoInterrupt:
      pc = instruction.argument;
      return kDone;
    case Opcode::kJumpBackward:
      if (hot.vm.wants_attention()) return kSlow;
      pc = instruction.argument;
      return kDone;
    case Opcode::kResume:
      return hot.vm.wants_attention() ? kSlow : kDone;
    case Opcode::kForIter:
      return hot_for_iter(instruction, pc, sp);
    case Opcode::kPopJumpIfFalse:
    case Opcode::kPopJumpIfTrue: {
      PyObject* condition = sp[-1];
      if (condition != Py_True && condition != Py_False) return kSlow;
      --sp;
      if ((condition == Py_True) == (instruction.opcode == Opcode::kPopJumpIfTrue)) pc = instruction.argument;
      return kDone;
    }
    case Opcode::kUnaryNot: {
      PyObject* operand = sp[-1];
      if (operand != Py_True && operand != Py_False) return kSlow;
      sp[-1] = operand == Py_True ? Py_False : Py_True;  // immortal
      return kDone;
    }
    case Opcode::kIsOp: {
      bool same = (sp[-2] == sp[-1]) != (instruction.argument != 0);
      return replace_two(sp, same ? Py_True : Py_False);
    }
    case Opcode::kCompareOp: {
      PyObject* answer = fast_comparison(instruction.argument >> 4, sp[-2], sp[-1]);
      return answer ? replace_two(sp, answer) : kSlow;
    }
    case Opcode::kBinaryOp: {
      PyObject* value = fast_arithmetic(instruction.argument, sp[-2], sp[-1]);
      if (value) return replace_two(sp, value);
      if (PyErr_Occurred()) PyErr_Clear();  // no memory: the slow way says so again
      return kSlow;
    }
    case Opcode::kBinarySubscr: {
      PyObject* item = fast_item(sp[-2], sp[-1]);
      return item ? replace_two(sp, Py_NewRef(item)) : kSlow;
    }
    case Opcode::kStoreSubscr:
      return hot_store_item(sp);
    case Opcode::kUnpackSequence:
      return hot_unpack(instruction, sp);
    case Opcode::kListAppend: {
      PyObject* value = *--sp;
      int appended = PyList_Append(sp[-instruction.argument], value);
      Py_DECREF(value);
      return appended < 0 ? HotResult::kError : kDone;
    }
    default:
      return kSlow;
  }
}

}  // namespace dynrun::vm
