// Decodes CPython 3.12 bytecode. Other versions get a file of their own beside this one.

#include "bytecode/code.h"
#include "bytecode/counters.h"

#include <Python.h>

#include <array>
#include <memory>

#include "opcode.h"

#if PY_VERSION_HEX < 0x030C0000 || PY_VERSION_HEX >= 0x030D0000
#error "decoder_3_12.cpp is for CPython 3.12"
#endif

namespace dynrun::bytecode {
namespace {

struct Mapping {
  Opcode opcode = Opcode::kNop;
  bool known = false;
};

std::array<Mapping, 256> make_mapping() {
  std::array<Mapping, 256> mapping;
#define DYNRUN_MAP(constant, text, kind, jumps) mapping[text] = {Opcode::k##constant, true};
  DYNRUN_OPCODES(DYNRUN_MAP)
#undef DYNRUN_MAP
  return mapping;
}

// Inline cache entries behind an instruction, in code units.
int cache_units(int opcode) {
  switch (opcode) {
    case LOAD_ATTR:
      return 9;
    case STORE_ATTR:
    case LOAD_GLOBAL:
      return 4;
    case CALL:
      return 3;
    case BINARY_SUBSCR:
    case STORE_SUBSCR:
    case UNPACK_SEQUENCE:
    case FOR_ITER:
    case COMPARE_OP:
    case BINARY_OP:
    case SEND:
    case LOAD_SUPER_ATTR:
      return 1;
    default:
      return 0;
  }
}

bool has_cache(Opcode opcode) {
  return opcode == Opcode::kLoadAttr || opcode == Opcode::kStoreAttr || opcode == Opcode::kLoadGlobal;
}

bool jumps_backward(int opcode) {
  return opcode == JUMP_BACKWARD || opcode == JUMP_BACKWARD_NO_INTERRUPT;
}

// A variable length number of the exception table: six bits a byte, most significant first, bit 6 says that more follow.
const unsigned char* read_varint(const unsigned char* scan, int* value) {
  *value = *scan & 63;
  while (*scan & 64) {
    ++scan;
    *value = (*value << 6) | (*scan & 63);
  }
  return scan + 1;
}

void decode_handlers(Code* code, int units) {
  PyObject* table = code->object->co_exceptiontable;
  auto* scan = reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(table));
  const unsigned char* end = scan + PyBytes_GET_SIZE(table);
  auto index = [&](int unit) {
    return unit < units ? code->index_at[unit] : static_cast<std::int32_t>(code->instructions.size());
  };
  while (scan < end) {
    int start, size, target, depth_and_lasti;
    scan = read_varint(scan, &start);
    scan = read_varint(scan, &size);
    scan = read_varint(scan, &target);
    scan = read_varint(scan, &depth_and_lasti);
    code->handlers.push_back(
        {index(start), index(start + size), index(target), depth_and_lasti >> 1, (depth_and_lasti & 1) != 0});
  }
}

void decode_instructions(Code* code, const unsigned char* bytes, int units) {
  static const std::array<Mapping, 256> mapping = make_mapping();
  code->index_at.assign(units, -1);
  std::vector<int> targets;  // in code units, of jumps
  int argument = 0, first = 0, keyword_names = -1;
  for (int unit = 0; unit < units;) {
    int opcode = bytes[2 * unit];
    argument = (argument << 8) | bytes[2 * unit + 1];
    int index = static_cast<int>(code->instructions.size());
    code->index_at[unit] = index;
    if (opcode == EXTENDED_ARG || opcode == KW_NAMES) {
      if (opcode == KW_NAMES) {
        keyword_names = argument;
        argument = 0;
      }
      ++unit;
      continue;
    }
    Instruction instruction;
    instruction.opcode = mapping[opcode].opcode;
    if (!mapping[opcode].known) code->supported = false;
    instruction.argument = argument;
    instruction.keyword_names = keyword_names;
    instruction.offset = unit;
    instruction.first_offset = first;
    instruction.next_offset = unit + 1 + cache_units(opcode);
    int target = -1;
    if (info(instruction.opcode).jumps) {
      target = jumps_backward(opcode) ? instruction.next_offset - argument : instruction.next_offset + argument;
      code->has_backward_jump |= jumps_backward(opcode);
    }
    targets.push_back(target);
    if (has_cache(instruction.opcode)) {
      instruction.cache = static_cast<std::int32_t>(code->caches.size());
      code->caches.push_back({});
    }
    code->instructions.push_back(instruction);
    unit = first = instruction.next_offset;
    argument = 0;
    keyword_names = -1;
  }
  for (std::size_t i = 0; i < targets.size(); ++i) {
    if (targets[i] >= 0) code->instructions[i].argument = code->index_at[targets[i]];
  }
}

// Extras are made here rather than through PyUnstable_Code_SetExtra: that makes room for every user's index, and each user's
// free function is then called for code that the user never touched.
bool store_extra(PyCodeObject* object, Code* code) {
  using detail::Extras;
  if (detail::extra_index < 0) {
    detail::extra_index = PyUnstable_Eval_RequestCodeExtraIndex([](void* code) { delete static_cast<Code*>(code); });
  }
  auto* extras = static_cast<Extras*>(object->co_extra);
  Py_ssize_t index = detail::extra_index;
  Py_ssize_t before = extras ? extras->size : 0;
  if (index < 0) return false;
  if (index >= before) {
    extras = static_cast<Extras*>(PyMem_Realloc(extras, sizeof(Extras) + index * sizeof(void*)));
    if (!extras) return false;
    for (Py_ssize_t i = before; i <= index; ++i) extras->values[i] = nullptr;
    extras->size = index + 1;
    object->co_extra = extras;
  }
  extras->values[index] = code;
  return true;
}

}  // namespace

Py_ssize_t detail::extra_index = -1;

const Code* detail::decode_new(PyCodeObject* object) {
  auto code = std::make_unique<Code>();
  static std::uint64_t decoded = 0;
  code->object = object;
  code->serial = ++decoded;
  code->locals_count = object->co_nlocalsplus;
  // The bytes as the compiler made them: CPython undoes specialisation and instrumentation and zeroes the caches.
  PyObject* raised = PyErr_GetRaisedException();
  PyObject* bytes = PyCode_GetCode(object);
  bool stored = false;
  if (bytes) {
    int units = static_cast<int>(PyBytes_GET_SIZE(bytes) / 2);
    decode_instructions(code.get(), reinterpret_cast<const unsigned char*>(PyBytes_AS_STRING(bytes)), units);
    decode_handlers(code.get(), units);
    if (code->has_backward_jump) find_counters(*code);
    Py_DECREF(bytes);
    stored = store_extra(object, code.get());
  }
  PyErr_SetRaisedException(raised);
  if (stored) return code.release();
  static const Code* const kUnsupported = [] {
    auto* none = new Code;
    none->supported = false;
    return none;
  }();
  return kUnsupported;  // no memory: such a frame runs in CPython
}

}  // namespace dynrun::bytecode
