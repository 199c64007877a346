#pragma once
// One function an opcode: declarations, and what opcode files share.

#include "python/reference.h"
#include "vm/interpreter.h"

// Exported by libpython, declared in its internal headers only.
#undef _PyObject_LookupSpecial
extern "C" {
PyObject* _PyObject_LookupSpecial(PyObject* object, PyObject* name);
PyObject* _PyExc_CreateExceptionGroup(const char* message, PyObject* exceptions);
}

namespace dynrun::vm {

using bytecode::Instruction;
using bytecode::Opcode;
using Operation = Status (*)(Interpreter& vm, Activation& top, const Instruction& instruction);

#define DYNRUN_OP(constant)                                                                     \
  Status execute_##constant([[maybe_unused]] Interpreter& vm, [[maybe_unused]] Activation& top, \
                            [[maybe_unused]] const Instruction& instruction)

#define DYNRUN_DECLARE_OP(constant, text, kind, jumps) DYNRUN_OP(constant);
DYNRUN_OPCODES(DYNRUN_DECLARE_OP)
#undef DYNRUN_DECLARE_OP

inline PyObject* constant_at(const Activation& top, int index) {
  return PyTuple_GET_ITEM(top.code->object->co_consts, index);
}
inline PyObject* name_at(const Activation& top, int index) {
  return PyTuple_GET_ITEM(top.code->object->co_names, index);
}

/// Pushes `result` (stolen), or reports the error that its absence means.
inline Status push_or_error(Activation& top, PyObject* result) {
  if (!result) return Status::kError;
  top.push(result);
  return Status::kNext;
}
inline Status next_or_error(int result) {
  return result < 0 ? Status::kError : Status::kNext;
}

/// An interned string of the interpreter's own, made at first use.
PyObject* interned(const char* text, PyObject** cache);
#define DYNRUN_NAME(text)                        \
  ([]() -> PyObject* {                           \
    static PyObject* cache = nullptr;            \
    return ::dynrun::vm::interned(text, &cache); \
  }())

void raise_unbound_name(PyObject* exception, const char* format, PyObject* name);
void raise_unbound_slot(PyCodeObject* code, int slot);
inline constexpr const char* kNameMessage = "name '%.200s' is not defined";

}  // namespace dynrun::vm
