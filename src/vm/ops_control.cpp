// Jumps, loops, returns.

#include "vm/ops.h"

namespace dynrun::vm {
namespace {

Status jump_on(Activation& top, const Instruction& instruction, bool wanted) {
  PyObject* condition = top.pop();
  bool truth;
  if (condition == Py_True) {
    truth = true;
  } else if (condition == Py_False) {
    truth = false;
  } else {
    int answer = PyObject_IsTrue(condition);
    Py_DECREF(condition);
    if (answer < 0) return Status::kError;
    truth = answer != 0;
  }
  if (truth == wanted) top.pc = instruction.argument;
  return Status::kNext;
}

Status jump_on_none(Activation& top, const Instruction& instruction, bool wanted) {
  PyObject* value = top.pop();
  bool is_none = value == Py_None;
  Py_DECREF(value);
  if (is_none == wanted) top.pc = instruction.argument;
  return Status::kNext;
}

}  // namespace

DYNRUN_OP(JumpForward) {
  top.pc = instruction.argument;
  return Status::kNext;
}

DYNRUN_OP(JumpBackward) {
  top.pc = instruction.argument;
  return vm.check_attention();
}

DYNRUN_OP(JumpBackwardNoInterrupt) {
  top.pc = instruction.argument;
  return Status::kNext;
}

DYNRUN_OP(PopJumpIfFalse) {
  return jump_on(top, instruction, false);
}
DYNRUN_OP(PopJumpIfTrue) {
  return jump_on(top, instruction, true);
}
DYNRUN_OP(PopJumpIfNone) {
  return jump_on_none(top, instruction, true);
}
DYNRUN_OP(PopJumpIfNotNone) {
  return jump_on_none(top, instruction, false);
}

DYNRUN_OP(GetIter) {
  PyObject* iterable = top.pop();
  PyObject* iterator = PyObject_GetIter(iterable);
  Py_DECREF(iterable);
  return push_or_error(top, iterator);
}

DYNRUN_OP(ForIter) {
  PyObject* iterator = top.peek(1);
  Status status;
  if (PyGen_CheckExact(iterator) && vm.resume_inside(iterator, Py_None, Resumption::kForIter, &status)) return status;
  PyObject* next = Py_TYPE(iterator)->tp_iternext(iterator);
  if (next) {
    top.push(next);
    return Status::kNext;
  }
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_StopIteration)) return Status::kError;
    PyErr_Clear();
  }
  top.pop();
  Py_DECREF(iterator);
  top.pc = instruction.argument + 1;  // behind the END_FOR
  return Status::kNext;
}

DYNRUN_OP(ReturnValue) {
  return vm.finish(top.pop());
}

DYNRUN_OP(ReturnConst) {
  return vm.finish(Py_NewRef(constant_at(top, instruction.argument)));
}

}  // namespace dynrun::vm
