// Operators, subscripts and comparisons.

#include "vm/ops.h"

namespace dynrun::vm {
namespace {

PyObject* power(PyObject* base, PyObject* exponent) {
  return PyNumber_Power(base, exponent, Py_None);
}
PyObject* power_in_place(PyObject* base, PyObject* exponent) {
  return PyNumber_InPlacePower(base, exponent, Py_None);
}

// In the order of NB_* in opcode.h.
constexpr binaryfunc kBinary[] = {
    PyNumber_Add,
    PyNumber_And,
    PyNumber_FloorDivide,
    PyNumber_Lshift,
    PyNumber_MatrixMultiply,
    PyNumber_Multiply,
    PyNumber_Remainder,
    PyNumber_Or,
    power,
    PyNumber_Rshift,
    PyNumber_Subtract,
    PyNumber_TrueDivide,
    PyNumber_Xor,
    PyNumber_InPlaceAdd,
    PyNumber_InPlaceAnd,
    PyNumber_InPlaceFloorDivide,
    PyNumber_InPlaceLshift,
    PyNumber_InPlaceMatrixMultiply,
    PyNumber_InPlaceMultiply,
    PyNumber_InPlaceRemainder,
    PyNumber_InPlaceOr,
    power_in_place,
    PyNumber_InPlaceRshift,
    PyNumber_InPlaceSubtract,
    PyNumber_InPlaceTrueDivide,
    PyNumber_InPlaceXor,
};
constexpr int kAdd = 0;
constexpr int kInPlaceAdd = 13;

Status unary(Activation& top, unaryfunc function) {
  PyObject* operand = top.pop();
  PyObject* result = function(operand);
  Py_DECREF(operand);
  return push_or_error(top, result);
}

// `s = s + t`, `s += t` on a str whose only other owner is the variable that is stored to next: grown in place, as CPython
// does, so that building a string piece by piece stays linear. Returns whether it did (with the store done).
bool appends_to_local(Interpreter& vm, Activation& top, int operation, Status* status) {
  if ((operation != kAdd && operation != kInPlaceAdd) || vm.observer || stressing()) return false;
  PyObject* left = top.peek(2);
  PyObject* right = top.peek(1);
  if (!PyUnicode_CheckExact(left) || !PyUnicode_CheckExact(right)) return false;
  const Instruction& next = top.code->instructions[top.pc];
  if (next.opcode != Opcode::kStoreFast || top.locals()[next.argument] != left) return false;
  top.stack_pointer -= 2;
  Py_DECREF(left);  // the local still owns it
  PyObject** slot = &top.locals()[next.argument];
  PyUnicode_Append(slot, right);
  Py_DECREF(right);
  if (*slot) {
    ++top.pc;
    *status = Status::kNext;
  } else {
    *status = Status::kError;
  }
  return true;
}

}  // namespace

DYNRUN_OP(UnaryNegative) {
  return unary(top, PyNumber_Negative);
}
DYNRUN_OP(UnaryInvert) {
  return unary(top, PyNumber_Invert);
}

DYNRUN_OP(UnaryNot) {
  PyObject* operand = top.pop();
  int truth = PyObject_IsTrue(operand);
  Py_DECREF(operand);
  return truth < 0 ? Status::kError : push_or_error(top, Py_NewRef(truth ? Py_False : Py_True));
}

DYNRUN_OP(BinaryOp) {
  Status status;
  if (appends_to_local(vm, top, instruction.argument, &status)) return status;
  PyObject* right = top.pop();
  PyObject* left = top.pop();
  PyObject* result = kBinary[instruction.argument](left, right);
  Py_DECREF(left);
  Py_DECREF(right);
  return push_or_error(top, result);
}

DYNRUN_OP(BinarySubscr) {
  PyObject* key = top.pop();
  PyObject* container = top.pop();
  PyObject* result = PyObject_GetItem(container, key);
  Py_DECREF(container);
  Py_DECREF(key);
  return push_or_error(top, result);
}

DYNRUN_OP(BinarySlice) {
  python::Ref stop = python::Ref::steal(top.pop());
  python::Ref start = python::Ref::steal(top.pop());
  python::Ref container = python::Ref::steal(top.pop());
  python::Ref slice = python::Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  if (!slice) return Status::kError;
  return push_or_error(top, PyObject_GetItem(container.get(), slice.get()));
}

DYNRUN_OP(StoreSlice) {
  python::Ref stop = python::Ref::steal(top.pop());
  python::Ref start = python::Ref::steal(top.pop());
  python::Ref container = python::Ref::steal(top.pop());
  python::Ref value = python::Ref::steal(top.pop());
  python::Ref slice = python::Ref::steal(PySlice_New(start.get(), stop.get(), nullptr));
  if (!slice) return Status::kError;
  return next_or_error(PyObject_SetItem(container.get(), slice.get(), value.get()));
}

DYNRUN_OP(StoreSubscr) {
  python::Ref key = python::Ref::steal(top.pop());
  python::Ref container = python::Ref::steal(top.pop());
  python::Ref value = python::Ref::steal(top.pop());
  return next_or_error(PyObject_SetItem(container.get(), key.get(), value.get()));
}

DYNRUN_OP(DeleteSubscr) {
  python::Ref key = python::Ref::steal(top.pop());
  python::Ref container = python::Ref::steal(top.pop());
  return next_or_error(PyObject_DelItem(container.get(), key.get()));
}

DYNRUN_OP(CompareOp) {
  PyObject* right = top.pop();
  PyObject* left = top.pop();
  PyObject* result = PyObject_RichCompare(left, right, instruction.argument >> 4);
  Py_DECREF(left);
  Py_DECREF(right);
  return push_or_error(top, result);
}

DYNRUN_OP(IsOp) {
  PyObject* right = top.pop();
  PyObject* left = top.pop();
  bool same = (left == right) != (instruction.argument != 0);
  Py_DECREF(left);
  Py_DECREF(right);
  top.push(Py_NewRef(same ? Py_True : Py_False));
  return Status::kNext;
}

DYNRUN_OP(ContainsOp) {
  PyObject* container = top.pop();
  PyObject* value = top.pop();
  int contained = PySequence_Contains(container, value);
  Py_DECREF(value);
  Py_DECREF(container);
  if (contained < 0) return Status::kError;
  top.push(Py_NewRef((contained != 0) != (instruction.argument != 0) ? Py_True : Py_False));
  return Status::kNext;
}

}  // namespace dynrun::vm
