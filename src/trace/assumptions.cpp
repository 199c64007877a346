#include "trace/assumptions.h"

#include "guards/torch_python.h"
#include "runtime/require_truth.h"
#include "trace/recorder.h"

#include <ATen/Functions.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <cstdlib>

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

/// The constant as what a number of that kind is compared with, exactly: integers in 64 bits, others as doubles.
std::optional<at::Scalar> bound_of(PyObject* constant, bool whole) {
  if (PyFloat_CheckExact(constant)) return whole ? std::nullopt : std::optional(at::Scalar(PyFloat_AS_DOUBLE(constant)));
  if (!PyLong_CheckExact(constant)) return std::nullopt;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(constant, &overflow);
  if (overflow != 0 || value < -(1LL << 53) || value > (1LL << 53)) return std::nullopt;
  return whole ? at::Scalar(static_cast<std::int64_t>(value)) : at::Scalar(static_cast<double>(value));
}

/// By Python's number of the comparison, and of the one with its operands the other way round.
constexpr std::array<int, 6> kReversed = {Py_GT, Py_GE, Py_EQ, Py_NE, Py_LT, Py_LE};

at::Tensor compared(const at::Tensor& number, const at::Scalar& bound, int comparison) {
  switch (comparison) {
    case Py_LT: return number.lt(bound);
    case Py_LE: return number.le(bound);
    case Py_EQ: return number.eq(bound);
    case Py_NE: return number.ne(bound);
    case Py_GT: return number.gt(bound);
    default: return number.ge(bound);
  }
}

const auto& require_truth() {
  static const auto require = c10::Dispatcher::singleton().findSchemaOrThrow("dynrun::require_truth", "").typed<void(const at::Tensor&, bool, std::int64_t)>();
  return require;
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
  operators_.set_source(source_line(activation, in));
  return record_all([&] { require_truth().call(of, truth, place); }) ? std::optional(truth) : std::nullopt;
}

/// The same of `t.item() <= 5` and a jump on it: the tensor is compared, in the type that Python compares its number in.
std::optional<Flow> Recorder::assume_comparison(vm::Activation& activation, const bytecode::Instruction& in) {
  PyObject *left = activation.peek(2), *right = activation.peek(1);
  const bool reversed = is_late(right);
  PyObject *number = reversed ? right : left, *constant = reversed ? left : right;
  const std::int32_t jump = activation.pc + 1;
  const std::int64_t place = place_of_jump(*activation.code, jump);
  if (!limits_.assumes || !is_item(number) || is_unsettled(constant) || is_host(constant) || operators_.wrote_outside() || runtime::is_refuted(place)) return std::nullopt;
  PyObject* object = late_.at(number).arguments[0].get();
  const at::Tensor& of = guards::tensor_of(object);
  const bool whole = c10::isIntegralType(of.scalar_type(), false);
  const std::optional<at::Scalar> bound = bound_of(constant, whole);
  if (!bound || whole != (PyLong_CheckExact(number) != 0) || is_unsized(object) || of.scalar_type() == at::kUInt64) return std::nullopt;
  const int comparison = in.argument >> 4;
  const python::Ref result = python::Ref::steal(PyObject_RichCompare(left, right, comparison));
  const bool truth = result.get() == Py_True;
  PyErr_Clear();
  if (!result || !passes_by_raise(*activation.code, jump, truth) || !is_constant(constant)) return std::nullopt;
  operators_.set_source(source_line(activation, in));
  const bool recorded = record_all([&] {
    const at::Tensor plain = of.requires_grad() ? of.detach() : of;
    require_truth().call(compared(plain.to(whole ? at::kLong : at::kDouble), *bound, reversed ? kReversed[static_cast<std::size_t>(comparison)] : comparison), truth, place);
  });
  if (!recorded) return std::nullopt;
  const Flow flow = give(activation, result, 2);
  if (Py_REFCNT(number) == 1) originals_.erase(number), late_.erase(number);  // nobody has it any more
  return flow;
}

/// `t.item()` of a truth, and a jump on it.
std::optional<Flow> Recorder::assume_item(vm::Activation& activation, const CallSite& site) {
  const auto& instructions = activation.code->instructions;
  const bytecode::Instruction& in = instructions[static_cast<std::size_t>(activation.pc)];
  const Opcode next = instructions[static_cast<std::size_t>(activation.pc) + 1].opcode;
  if ((next != Opcode::kPopJumpIfTrue && next != Opcode::kPopJumpIfFalse) || guards::tensor_of(site.arguments[0]).is_meta()) return std::nullopt;
  const auto truth = assume_truth(activation, in, site.arguments[0], activation.pc + 1);
  if (!truth) return std::nullopt;
  count_operators(1);
  return give(activation, python::Ref::borrow(*truth ? Py_True : Py_False), site.slots);
}

}  // namespace dynrun::trace
