#pragma once
// dynrun bytecode: a code object, decoded.

#include "bytecode/opcodes.h"
#include "python/inline_cache.h"

#include <Python.h>

#include <cstdint>
#include <string>
#include <vector>

namespace dynrun::bytecode {

/// One dynrun instruction. EXTENDED_ARG is folded in, inline caches are skipped, KW_NAMES is part of its CALL.
struct alignas(32) Instruction {
  Opcode opcode = Opcode::kNop;
  std::int32_t argument = 0;        // as in CPython; jump opcodes: the index of the target instruction instead
  std::int32_t keyword_names = -1;  // CALL: index into co_consts of the tuple of keyword names, or -1
  std::int32_t offset = 0;          // in code units, of the instruction's own unit (behind its EXTENDED_ARGs and KW_NAMES)
  std::int32_t first_offset = 0;    // in code units, of its first EXTENDED_ARG or KW_NAMES: where CPython starts it
  std::int32_t next_offset = 0;     // in code units, behind its caches: where the next instruction starts
  std::int32_t cache = -1;          // index into Code::caches, for the opcodes that have one
};

struct ExceptionHandler {
  std::int32_t start, end;  // instruction indices, half open
  std::int32_t target;      // instruction index
  std::int32_t depth;       // stack depth to unwind to
  bool push_lasti;
};

struct Code {
  PyCodeObject* object = nullptr;  // borrowed: the Code is owned by the code object's extra slot
  std::uint64_t serial = 0;        // of this process; an address may be another code's later
  std::vector<Instruction> instructions;
  std::vector<std::int32_t> index_at;  // by code unit: index of the instruction that starts or lies there, -1 in caches
  std::vector<ExceptionHandler> handlers;
  std::int32_t locals_count = 0;  // co_nlocalsplus
  bool has_backward_jump = false;
  /// By local: the first instruction of the loops whose turns count it up or down, take it from an iterator; kNoLoop where there is none.
  std::vector<std::int32_t> counted_from;
  static constexpr std::int32_t kNoLoop = INT32_MAX;
  mutable std::vector<DynrunInlineCache> caches;  // by Instruction::cache
  bool supported = true;                          // false: holds an opcode that the VM cannot run yet
  mutable std::vector<bool> handed_over;          // test mode: by instruction, whether its boundary went to CPython's evaluator
};

namespace detail {

/// What PyCodeObject::co_extra points to.
struct Extras {
  Py_ssize_t size;
  void* values[1];
};
extern Py_ssize_t extra_index;  // of Code in Extras::values; -1: none was made yet
const Code* decode_new(PyCodeObject* object);

}  // namespace detail

/// The decoded form of `code`, made at first use and kept as long as the code object lives. Instrumented and specialised
/// opcodes are undone. Never null.
inline const Code* decode(PyCodeObject* object) {
  auto* extras = static_cast<const detail::Extras*>(object->co_extra);
  if (extras && detail::extra_index >= 0 && detail::extra_index < extras->size) {
    if (void* found = extras->values[detail::extra_index]) return static_cast<const Code*>(found);
  }
  return detail::decode_new(object);
}

/// One line an instruction: index, offset, source line, name, argument in words.
std::string disassemble(const Code& code);

}  // namespace dynrun::bytecode
