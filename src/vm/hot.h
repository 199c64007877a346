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

/// Whether freeing `object` runs nothing that could look at this frame.
inline bool dies_quietly(PyObject* object) {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object);
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

/// Runs `instruction` here if it is one of the hot ones and in an easy case: then `pc` and `sp` are moved on, true.
inline bool run_hot(const Interpreter& vm, PyObject** locals, PyObject* constants, const bytecode::Instruction& instruction,
                    std::int32_t& pc, PyObject**& sp) {
  using bytecode::Opcode;
  switch (instruction.opcode) {
    case Opcode::kLoadFast:
      *sp++ = Py_NewRef(locals[instruction.argument]);
      return true;
    case Opcode::kLoadFastCheck:
      if (!locals[instruction.argument]) return false;
      *sp++ = Py_NewRef(locals[instruction.argument]);
      return true;
    case Opcode::kLoadConst:
      *sp++ = Py_NewRef(PyTuple_GET_ITEM(constants, instruction.argument));
      return true;
    case Opcode::kPushNull:
      *sp++ = nullptr;
      return true;
    case Opcode::kCopy: {
      PyObject* value = Py_XNewRef(sp[-instruction.argument]);
      *sp++ = value;
      return true;
    }
    case Opcode::kSwap:
      std::swap(sp[-1], sp[-instruction.argument]);
      return true;
    case Opcode::kStoreFast: {
      PyObject* before = locals[instruction.argument];
      if (before && Py_REFCNT(before) == 1 && !dies_quietly(before)) return false;
      locals[instruction.argument] = *--sp;
      Py_XDECREF(before);
      return true;
    }
    case Opcode::kPopTop:
      if (Py_REFCNT(sp[-1]) == 1 && !dies_quietly(sp[-1])) return false;
      Py_DECREF(*--sp);
      return true;
    case Opcode::kPopJumpIfNone:
    case Opcode::kPopJumpIfNotNone: {
      PyObject* value = sp[-1];
      if (value != Py_None && Py_REFCNT(value) == 1 && !dies_quietly(value)) return false;
      --sp;
      if ((value == Py_None) == (instruction.opcode == Opcode::kPopJumpIfNone)) pc = instruction.argument;
      if (value != Py_None) Py_DECREF(value);
      return true;
    }
    case Opcode::kNop:
      return true;
    case Opcode::kJumpForward:
      pc = instruction.argument;
      return true;
    case Opcode::kJumpBackward:
      if (vm.wants_attention()) return false;
      pc = instruction.argument;
      return true;
    case Opcode::kResume:
      return !vm.wants_attention();
    case Opcode::kPopJumpIfFalse:
    case Opcode::kPopJumpIfTrue: {
      PyObject* condition = sp[-1];
      if (condition != Py_True && condition != Py_False) return false;
      --sp;
      if ((condition == Py_True) == (instruction.opcode == Opcode::kPopJumpIfTrue)) pc = instruction.argument;
      return true;
    }
    case Opcode::kCompareOp: {
      PyObject* answer = fast_comparison(instruction.argument >> 4, sp[-2], sp[-1]);
      if (!answer) return false;
      Py_DECREF(sp[-1]);
      Py_DECREF(sp[-2]);
      --sp;
      sp[-1] = answer;  // immortal
      return true;
    }
    case Opcode::kBinaryOp: {
      PyObject* value = fast_arithmetic(instruction.argument, sp[-2], sp[-1]);
      if (!value) {
        PyErr_Clear();  // no memory: the slow way says so again
        return false;
      }
      Py_DECREF(sp[-1]);
      Py_DECREF(sp[-2]);
      --sp;
      sp[-1] = value;
      return true;
    }
    default:
      return false;
  }
}

}  // namespace dynrun::vm
