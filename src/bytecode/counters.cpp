#include "bytecode/counters.h"

#include <algorithm>

namespace dynrun::bytecode {
namespace {

bool loads_local(const Instruction& in) { return in.opcode == Opcode::kLoadFast || in.opcode == Opcode::kLoadFastCheck; }

/// Whether the store at `at` is that of `n += 1`, `n = n * 2` and the like, with any one operand.
bool counts(const std::vector<Instruction>& code, std::size_t at, std::size_t begin) {
  return at >= begin + 3 && code[at - 1].opcode == Opcode::kBinaryOp && loads_local(code[at - 3]) && code[at - 3].argument == code[at].argument;
}

/// Whether the store at `at` is of what an iterator gave, or of a part of it.
bool takes_item(const std::vector<Instruction>& code, std::size_t at, std::size_t begin) {
  std::size_t first = at;
  while (first > begin && code[first - 1].opcode == Opcode::kStoreFast) --first;
  if (first > begin && code[first - 1].opcode == Opcode::kUnpackSequence && static_cast<std::int32_t>(at - first) < code[first - 1].argument) --first;
  return first > begin && (first == at || code[first].opcode == Opcode::kUnpackSequence) && code[first - 1].opcode == Opcode::kForIter;
}

}  // namespace

void find_counters(Code& code) {
  code.counted_from.assign(static_cast<std::size_t>(code.locals_count), Code::kNoLoop);
  const std::vector<Instruction>& instructions = code.instructions;
  for (std::size_t end = 0; end < instructions.size(); ++end) {
    const Instruction& jump = instructions[end];
    if (jump.opcode != Opcode::kJumpBackward && jump.opcode != Opcode::kJumpBackwardNoInterrupt) continue;
    const auto begin = static_cast<std::size_t>(jump.argument);
    for (std::size_t at = begin; at < end; ++at) {
      if (instructions[at].opcode != Opcode::kStoreFast || !(counts(instructions, at, begin) || takes_item(instructions, at, begin))) continue;
      std::int32_t& from = code.counted_from[static_cast<std::size_t>(instructions[at].argument)];
      from = std::min(from, jump.argument);
    }
  }
}

}  // namespace dynrun::bytecode
