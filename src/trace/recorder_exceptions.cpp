// Exceptions raised and handled by recorded code.

#include "trace/recorder.h"

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using python::Ref;

/// Whether an exception that starts here may be caught by recorded code, or by the C code that called it.
bool Recorder::is_handled(vm::Activation& activation) {
  if (vm::current_machine() != &machine_) return true;
  for (vm::Activation* outer = &activation; outer; outer = outer->caller) {
    int at = outer == &activation ? outer->pc : outer->pc - 1;
    for (const bytecode::ExceptionHandler& handler : outer->code->handlers) {
      if (at >= handler.start && at < handler.end) return true;
    }
    if (outer == base_) break;
  }
  return false;
}

Flow Recorder::raise(vm::Activation& activation, const Instruction& in) {
  if (!is_handled(activation)) return cut(BreakId::k_raise);
  const int at = in.opcode == Opcode::kRaiseVarargs ? in.argument : 1;
  Ref raised = at == 0 ? Ref::steal(PyErr_GetHandledException()) : Ref::borrow(activation.peek(at));
  if (raised && PyExceptionInstance_Check(raised.get()) && !is_fresh(raised.get()))
    return cut(BreakId::k_raise, "an exception from outside, whose traceback grows");
  if (activation.stack_depth() > 0 && activation.peek(1) && !resolve(activation.peek(1)) && !PyExceptionInstance_Check(activation.peek(1)))
    return cut(BreakId::k_raise);
  return Flow::kRun;
}

/// The exception being handled is the thread's state: a segment may enter and leave a handler, and end inside one it entered
/// where that exception can be rebuilt; it may not leave one it did not enter.
Flow Recorder::push_exception(vm::Activation&, const Instruction& in) {
  if (in.opcode == Opcode::kPushExcInfo) handlers_entered_++;
  if (in.opcode == Opcode::kPopExcept) {
    if (handlers_entered_ == 0) return cut(BreakId::k_raise, "the end of an exception's handler");
    handlers_entered_--;
  }
  return Flow::kRun;
}

/// The exit of a context manager, told of an exception: C code calls it.
Flow Recorder::with_except_start(vm::Activation& activation, const Instruction& in) {
  if (!resolve(activation.peek(4))) return cut(BreakId::k_unknown_object, "a context manager's exit");
  mutations_++;
  return prepare(activation, in, 0, Then::kLearnTop);
}

}  // namespace dynrun::trace
