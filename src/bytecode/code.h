#pragma once
// dynrun bytecode: a code object, decoded.

#include "bytecode/opcodes.h"

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dynrun::bytecode {

/// One dynrun instruction. EXTENDED_ARG is folded in, inline caches are skipped, KW_NAMES is part of its CALL.
struct Instruction {
  Opcode opcode = Opcode::kNop;
  std::int32_t argument = 0;        // as in CPython; jump opcodes: the index of the target instruction instead
  std::int32_t keyword_names = -1;  // CALL: index into co_consts of the tuple of keyword names, or -1
  std::int32_t offset = 0;          // in code units, of the instruction's own unit (behind its EXTENDED_ARGs and KW_NAMES)
  std::int32_t first_offset = 0;    // in code units, of its first EXTENDED_ARG or KW_NAMES: where CPython starts it
  std::int32_t next_offset = 0;     // in code units, behind its caches: where the next instruction starts
};

struct ExceptionHandler {
  std::int32_t start, end;  // instruction indices, half open
  std::int32_t target;      // instruction index
  std::int32_t depth;       // stack depth to unwind to
  bool push_lasti;
};

struct Code {
  PyCodeObject* object = nullptr;  // borrowed: the Code is owned by the code object's extra slot
  std::vector<Instruction> instructions;
  std::vector<std::int32_t> index_at;  // by code unit: index of the instruction that starts or lies there, -1 in caches
  std::vector<ExceptionHandler> handlers;
  std::int32_t locals_count = 0;  // co_nlocalsplus
  bool has_backward_jump = false;
  bool supported = true;                  // false: holds an opcode that the VM cannot run yet
  mutable std::vector<bool> handed_over;  // test mode: by instruction, whether its boundary went to CPython's evaluator
};

/// The decoded form of `code`, made at first use and kept as long as the code object lives. Instrumented and specialised
/// opcodes are undone. Never null.
const Code* decode(PyCodeObject* code);

/// One line an instruction: index, offset, source line, name, argument in words.
std::string disassemble(const Code& code);

}  // namespace dynrun::bytecode
