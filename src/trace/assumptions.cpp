#include "trace/assumptions.h"

#include "guards/torch_python.h"
#include "runtime/require_truth.h"
#include "trace/recorder.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>

namespace dynrun::trace {
namespace {

using bytecode::Opcode;

/// Whether an `except` or `finally` of the function sees what is raised there.
bool is_handled(const bytecode::Code& code, std::int32_t at) {
  auto of_with = [&](std::int32_t target) { return code.instructions[static_cast<std::size_t>(target) + 1].opcode == Opcode::kWithExceptStart; };
  return std::any_of(code.handlers.begin(), code.handlers.end(), [&](const bytecode::ExceptionHandler& handler) { return handler.start <= at && at < handler.end && !of_with(handler.target); });
}

/// Whether what runs from there on is a straight way to a raise.
bool leads_to_raise(const bytecode::Code& code, std::int32_t at) {
  constexpr int kLongest = 200;  // instructions: a message may be a long one
  for (int i = 0; i < kLongest && static_cast<std::size_t>(at) < code.instructions.size(); i++) {
    const bytecode::Instruction& in = code.instructions[static_cast<std::size_t>(at)];
    switch (in.opcode) {
      case Opcode::kRaiseVarargs: return !is_handled(code, at);
      case Opcode::kJumpForward: at = in.argument; continue;
      case Opcode::kReturnValue:
      case Opcode::kReturnConst:
      case Opcode::kYieldValue:
      case Opcode::kForIter:
      case Opcode::kJumpBackward:
      case Opcode::kJumpBackwardNoInterrupt:
      case Opcode::kPopJumpIfTrue:
      case Opcode::kPopJumpIfFalse:
      case Opcode::kPopJumpIfNone:
      case Opcode::kPopJumpIfNotNone:
      case Opcode::kReraise: return false;
      default: at++;
    }
  }
  return false;
}

}  // namespace

bool passes_by_raise(const bytecode::Code& code, std::int32_t jump, bool truth) {
  const bytecode::Instruction& in = code.instructions[static_cast<std::size_t>(jump)];
  if (in.opcode != Opcode::kPopJumpIfTrue && in.opcode != Opcode::kPopJumpIfFalse) return false;
  const bool jumps = (in.opcode == Opcode::kPopJumpIfTrue) == truth;
  return leads_to_raise(code, jumps ? jump + 1 : in.argument);
}

std::int64_t place_of_jump(const bytecode::Code& code, std::int32_t jump) { return static_cast<std::int64_t>(code.serial << 24 | static_cast<std::uint32_t>(jump)); }

/// Where the jump at `jump`, on the truth of a tensor, passes by code that only raises: records that it does, and gives the truth.
std::optional<bool> Recorder::assume_truth(vm::Activation& activation, const bytecode::Instruction& in, PyObject* tensor, std::int32_t jump) {
  if (!limits_.assumes || vm::current_machine() != &machine_ || !guards::is_plain_tensor(tensor) || is_unsized(tensor) || is_late(tensor)) return std::nullopt;
  const at::Tensor& of = guards::tensor_of(tensor);
  const std::int64_t place = place_of_jump(*activation.code, jump);
  if (of.numel() != 1 || of.requires_grad() || operators_.wrote_outside() || runtime::is_refuted(place)) return std::nullopt;
  const bool truth = [&] {
    UnrecordedScope unrecorded;
    return at::is_nonzero(of);
  }();
  if (!passes_by_raise(*activation.code, jump, truth)) return std::nullopt;
  static const auto require = c10::Dispatcher::singleton().findSchemaOrThrow("dynrun::require_truth", "").typed<void(const at::Tensor&, bool, std::int64_t)>();
  operators_.set_source(source_line(activation, in));
  return record_all([&] { require.call(of, truth, place); }) ? std::optional(truth) : std::nullopt;
}

}  // namespace dynrun::trace
