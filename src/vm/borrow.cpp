// Loops of frames that CPython's evaluator runs: a machine takes such a frame over between two instructions and gives it back.
//
// CPython calls in from a backward jump that is instrumented for sys.monitoring. It has stored the frame's stack pointer, and
// reads stack pointer and position again when the call is over: what lies in between may move the frame.

#include "vm/interpreter.h"

#include <utility>

namespace dynrun::vm {

namespace {

bool ends_frame(bytecode::Opcode opcode) {
  using bytecode::Opcode;
  return opcode == Opcode::kReturnValue || opcode == Opcode::kReturnConst || opcode == Opcode::kYieldValue || opcode == Opcode::kReturnGenerator;
}

}  // namespace

bool Interpreter::leaves_loop(const Activation& here) const {
  return here.pc < loop_head_ || here.pc > loop_last_ || ends_frame(here.code->instructions[static_cast<std::size_t>(here.pc)].opcode);
}

/// Index of a RERAISE that takes its position from the stack and lies outside every handler, or -1.
int Interpreter::find_plain_reraise() const {
  const auto& instructions = base->code->instructions;
  for (std::size_t i = 0; i < instructions.size(); i++) {
    if (instructions[i].opcode == bytecode::Opcode::kReraise && instructions[i].argument == 1 && !find_handler(*base->code, static_cast<int>(i)))
      return static_cast<int>(i);
  }
  return -1;
}

bool Interpreter::lend(python::Frame* frame, std::int32_t head) {
  Activation* activation = new_activation();
  *activation = Activation{};
  activation->frame = frame;
  activation->code = bytecode::decode(frame->code);
  activation->pc = head;
  activation->stack_pointer = frame->localsplus + frame->stack_top;
  base = top = activation;
  frame->stack_top = -1;
  // Without one, an error could only be raised by CPython at the loop's head, under a handler that does not cover its origin.
  return !find_handler(*activation->code, head) || find_plain_reraise() >= 0;
}

void Interpreter::give_back() {
  python::Frame* frame = base->frame;
  if (!raised_) frame->previous_instruction = code_units(frame->code) + base->code->instructions[static_cast<std::size_t>(base->pc)].first_offset;
  frame->stack_top = static_cast<int>(base->stack_pointer - frame->localsplus);
  free_activation(base);
  base = top = nullptr;
}

/// An error left the base. CPython raises at the loop's head; where that lies under a handler the error goes on from a RERAISE.
/// True: CPython goes on at the frame's position instead of raising.
bool Interpreter::raise_in_cpython() {
  Activation& here = *base;
  if (!find_handler(*here.code, loop_head_)) return false;
  dynrun_traceback_here(thread, here.frame);
  while (here.stack_pointer > here.stack_base()) Py_XDECREF(here.pop());
  PyObject* error = PyErr_GetRaisedException();
  std::ptrdiff_t last = here.frame->previous_instruction - code_units(here.frame->code);
  PyObject* position = PyLong_FromLong(static_cast<long>(last));
  if (!position) {
    PyErr_SetRaisedException(error);
    return false;
  }
  here.push(position);
  here.push(error);
  here.pc = find_plain_reraise();
  raised_ = false;
  return true;
}

Lent Interpreter::run_borrowed(python::Frame* frame, std::int32_t head, std::int32_t last) {
  if (!the_hook.engine || dynrun_is_collecting(thread) || dynrun_check_stack() < 0 || dynrun_enter_evaluator(thread) < 0) {
    PyErr_Clear();
    return Lent::kRefused;
  }
  borrowed = true;
  loop_head_ = head;
  loop_last_ = last;
  bool ran = false;
  if (lend(frame, head) && (observer = the_hook.engine->looping(*this, *top))) {
    ran = true;
    const int tracing = std::exchange(thread->tracing, 0);
    make_current();
    bool running = true;
    while (running) {
      running = observer ? loop<true>() : loop<false>();
      if (!running && observer && !raised_) observer->giving_back(*this);
    }
    the_hook.engine->finished(*this);
    observer = nullptr;
    leave_current();
    thread->tracing = tracing;
  }
  const bool raises = raised_ && !raise_in_cpython();
  give_back();
  dynrun_leave_evaluator(thread);
  return !ran ? Lent::kRefused : raises ? Lent::kRaised : Lent::kRan;
}

Lent run_loop(PyThreadState* thread, python::Frame* frame, std::int32_t head, std::int32_t last) {
  return Interpreter(thread).run_borrowed(frame, head, last);
}

}  // namespace dynrun::vm
