// Opcodes that only move values on the stack and between stack, locals and cells.

#include "vm/ops.h"

namespace dynrun::vm {

DYNRUN_OP(Nop) {
  return Status::kNext;
}

DYNRUN_OP(Resume) {
  // 0: start of a function, 1: after a yield; 2 and 3, inside `yield from` and `await`, must not be interrupted.
  return instruction.argument < 2 ? vm.check_attention() : Status::kNext;
}

DYNRUN_OP(PopTop) {
  Py_DECREF(top.pop());
  return Status::kNext;
}

DYNRUN_OP(PushNull) {
  top.push(nullptr);
  return Status::kNext;
}

DYNRUN_OP(EndFor) {
  Py_DECREF(top.pop());
  Py_DECREF(top.pop());
  return Status::kNext;
}

DYNRUN_OP(EndSend) {
  PyObject* value = top.pop();
  Py_DECREF(top.pop());
  top.push(value);
  return Status::kNext;
}

DYNRUN_OP(Copy) {
  top.push(Py_XNewRef(top.peek(instruction.argument)));
  return Status::kNext;
}

DYNRUN_OP(Swap) {
  std::swap(top.stack_pointer[-1], top.stack_pointer[-instruction.argument]);
  return Status::kNext;
}

DYNRUN_OP(LoadConst) {
  top.push(Py_NewRef(constant_at(top, instruction.argument)));
  return Status::kNext;
}

DYNRUN_OP(LoadFast) {
  top.push(Py_NewRef(top.locals()[instruction.argument]));
  return Status::kNext;
}

DYNRUN_OP(LoadFastCheck) {
  PyObject* value = top.locals()[instruction.argument];
  if (!value) {
    raise_unbound_slot(top.code->object, instruction.argument);
    return Status::kError;
  }
  top.push(Py_NewRef(value));
  return Status::kNext;
}

DYNRUN_OP(LoadFastAndClear) {
  top.push(std::exchange(top.locals()[instruction.argument], nullptr));
  return Status::kNext;
}

DYNRUN_OP(StoreFast) {
  PyObject* before = std::exchange(top.locals()[instruction.argument], top.pop());
  Py_XDECREF(before);
  return Status::kNext;
}

DYNRUN_OP(DeleteFast) {
  PyObject* before = std::exchange(top.locals()[instruction.argument], nullptr);
  if (!before) {
    raise_unbound_slot(top.code->object, instruction.argument);
    return Status::kError;
  }
  Py_DECREF(before);
  return Status::kNext;
}

DYNRUN_OP(LoadClosure) {
  return execute_LoadFast(vm, top, instruction);
}

DYNRUN_OP(MakeCell) {
  PyObject*& slot = top.locals()[instruction.argument];
  PyObject* cell = PyCell_New(slot);
  if (!cell) return Status::kError;
  PyObject* initial = std::exchange(slot, cell);
  Py_XDECREF(initial);
  return Status::kNext;
}

DYNRUN_OP(CopyFreeVars) {
  PyObject* closure = reinterpret_cast<PyFunctionObject*>(top.frame->function)->func_closure;
  PyObject** slots = top.locals() + top.code->locals_count - instruction.argument;
  for (int i = 0; i < instruction.argument; ++i) slots[i] = Py_NewRef(PyTuple_GET_ITEM(closure, i));
  return Status::kNext;
}

DYNRUN_OP(LoadDeref) {
  PyObject* value = PyCell_GET(top.locals()[instruction.argument]);
  if (!value) {
    raise_unbound_slot(top.code->object, instruction.argument);
    return Status::kError;
  }
  top.push(Py_NewRef(value));
  return Status::kNext;
}

DYNRUN_OP(StoreDeref) {
  PyObject* cell = top.locals()[instruction.argument];
  PyObject* before = PyCell_GET(cell);
  PyCell_SET(cell, top.pop());
  Py_XDECREF(before);
  return Status::kNext;
}

DYNRUN_OP(DeleteDeref) {
  PyObject* cell = top.locals()[instruction.argument];
  PyObject* before = PyCell_GET(cell);
  if (!before) {
    raise_unbound_slot(top.code->object, instruction.argument);
    return Status::kError;
  }
  PyCell_SET(cell, nullptr);
  Py_DECREF(before);
  return Status::kNext;
}

}  // namespace dynrun::vm
