#include "trace/torch_breaks.h"

#include "python/text.h"

#include <algorithm>
#include <array>

namespace dynrun::trace {
namespace {

using bytecode::Opcode;
using report::BreakId;

class Place {
 public:
  Place(const bytecode::Code& code, std::int32_t pc) : code_(code), at_(static_cast<std::size_t>(pc)) {}

  /// The instruction so many behind it.
  Opcode opcode(std::size_t behind = 0) const {
    const std::size_t at = at_ + behind;
    return at < code_.instructions.size() ? code_.instructions[at].opcode : Opcode::kNop;
  }

  /// `assert condition`, with a constant message or none: the jump is `behind` instructions on.
  bool asserts(std::size_t behind) const {
    if (opcode(behind) != Opcode::kPopJumpIfTrue || opcode(behind + 1) != Opcode::kLoadAssertionError) return false;
    return opcode(behind + 2) == Opcode::kRaiseVarargs || (opcode(behind + 2) == Opcode::kLoadConst && opcode(behind + 3) == Opcode::kCall);
  }

  bool jumps(std::size_t behind) const { return opcode(behind) == Opcode::kPopJumpIfTrue || opcode(behind) == Opcode::kPopJumpIfFalse; }

 private:
  const bytecode::Code& code_;
  std::size_t at_;
};

/// The value of a tensor, or a number that follows from one, decides or is told at this place.
bool needs_value(const Place& place, std::string_view callee) {
  switch (place.opcode()) {
    case Opcode::kPopJumpIfTrue:
    case Opcode::kPopJumpIfFalse: return !place.asserts(0);
    case Opcode::kCompareOp:
    case Opcode::kContainsOp: return place.opcode(1) == Opcode::kUnaryNot || (place.jumps(1) && !place.asserts(1));
    case Opcode::kUnaryNot:
    case Opcode::kFormatValue:
    case Opcode::kBuildString:
    case Opcode::kBinarySubscr:
    case Opcode::kStoreSubscr:
    case Opcode::kBuildMap:
    case Opcode::kBuildSet:
    case Opcode::kGetIter:
    case Opcode::kForIter: return true;
    case Opcode::kCall: {
      static constexpr std::array<std::string_view, 9> kNeed = {"range", "len", "str", "repr", "format", "hash", "sorted", "any", "all"};
      return std::find(kNeed.begin(), kNeed.end(), callee) != kNeed.end();
    }
    default: return false;
  }
}

/// Whether the code asks if torch.compile is at work: `torch.compiler.is_compiling()` and its kin.
bool asks_if_compiled(const PyCodeObject* code) {
  static constexpr std::array<std::string_view, 5> kQuestions = {"is_compiling", "is_dynamo_compiling", "is_torchdynamo_compiling", "is_torch_compiling", "is_tracing"};
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); i++) {
    if (std::find(kQuestions.begin(), kQuestions.end(), python::text_of(PyTuple_GET_ITEM(code->co_names, i))) != kQuestions.end()) return true;
  }
  return false;
}

/// torch.cond, while_loop and their kin look at their conditions when they run plainly.
bool is_higher_order(const PyCodeObject* code) { return python::file_of(code->co_filename).find("/torch/_higher_order_ops/") != std::string::npos; }

}  // namespace

bool breaks_in_torch(BreakId id, std::string_view detail, const bytecode::Code& code, std::int32_t pc) {
  if (id == BreakId::k_asked_for || id == BreakId::k_disabled) return true;
  if (id != BreakId::k_data_dependent_bool && id != BreakId::k_changing_number) return false;
  return needs_value(Place(code, pc), detail) && !asks_if_compiled(code.object) && !is_higher_order(code.object);
}

}  // namespace dynrun::trace
