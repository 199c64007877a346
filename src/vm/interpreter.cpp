#include "vm/interpreter.h"

#include "vm/hot.h"
#include "vm/ops.h"

namespace dynrun::vm {
namespace {

constexpr Operation kOperations[] = {
#define DYNRUN_OPERATION(constant, text, kind, jumps) &execute_##constant,
    DYNRUN_OPCODES(DYNRUN_OPERATION)
#undef DYNRUN_OPERATION
};

thread_local Interpreter* current = nullptr;

// Activations are recycled: under the GIL, so one list serves all threads.
Activation* spare_activations = nullptr;

}  // namespace

Activation* new_activation() {
  if (!spare_activations) return new Activation;
  Activation* activation = spare_activations;
  spare_activations = activation->caller;
  return activation;
}

void free_activation(Activation* activation) {
  activation->caller = spare_activations;
  spare_activations = activation;
}

const bytecode::ExceptionHandler* find_handler(const bytecode::Code& code, int index) {
  for (const bytecode::ExceptionHandler& handler : code.handlers) {
    if (handler.start > index) return nullptr;
    if (index < handler.end) return &handler;
  }
  return nullptr;
}

Interpreter::Interpreter(PyThreadState* state)
    : thread(state),
      eval_breaker_(dynrun_eval_breaker(state)),
      monitoring_version_(dynrun_monitoring_version(state)),
      known_monitoring_version_(*monitoring_version_) {
  parent = current;
}

int Interpreter::attend() {
  if (!observer || !the_hook.engine) return dynrun_handle_pending(thread);
  const bool signal = dynrun_signal_waits();
  int result = 0;
  the_hook.engine->unrecorded([&] { result = dynrun_handle_pending(thread); });
  if (signal || result < 0) std::exchange(observer, nullptr)->interrupted(*this);
  return result;
}

void Interpreter::make_current() { current = this; }
void Interpreter::leave_current() { current = static_cast<Interpreter*>(parent); }

void Interpreter::set_current(python::Frame* frame) {
  thread->cframe->current_frame = reinterpret_cast<_PyInterpreterFrame*>(frame);
}

// ---- starting and ending frames ----

Activation* Interpreter::link(python::Frame* frame, Continuation continuation, PyObject* held) {
  Activation* activation = new_activation();
  activation->frame = frame;
  activation->code = bytecode::decode(frame->code);
  activation->stack_pointer = frame->localsplus + frame->stack_top;
  activation->caller = top;
  activation->continuation = continuation;
  activation->resumption = Resumption::kNone;
  activation->followed = false;
  activation->held = held;
  std::ptrdiff_t last = frame->previous_instruction - code_units(frame->code);
  bool resumed = frame->owner == python::kOwnedByGenerator && activation->code->supported;
  activation->pc = resumed ? activation->code->index_at[last] + 1 : 0;
  if (!top) {
    base = activation;
  } else if (top->pc > 0) {
    // As CPython leaves a caller: its last instruction is the call's last cache entry.
    top->frame->previous_instruction = code_units(top->frame->code) + top->code->instructions[top->pc - 1].next_offset - 1;
  }
  top = activation;
  frame->previous = reinterpret_cast<python::Frame*>(thread->cframe->current_frame);
  frame->stack_top = -1;  // while it runs, its stack is nobody else's business
  set_current(frame);
  ++the_hook.counters.frames_vm;
  return activation;
}

void Interpreter::unlink_top(Continuation* continuation, PyObject** held) {
  Activation* dying = top;
  *continuation = dying->continuation;
  *held = dying->held;
  dying->frame->stack_top = static_cast<int>(dying->stack_pointer - dying->frame->localsplus);
  set_current(dying->frame->previous);
  top = dying->caller;
  if (!top) base = nullptr;
  free_activation(dying);
}

Activation* Interpreter::start(python::Frame* frame, Continuation continuation, PyObject* held) {
  bool fits = dynrun_enter_python(thread) == 0;
  Activation* activation = link(frame, continuation, held);
  if (fits) return activation;
  dynrun_leave_python(thread);
  unlink_top(&continuation, &held);
  Py_XDECREF(held);
  dynrun_clear_frame(thread, frame);
  return nullptr;
}

Status Interpreter::began_call() {
  if (observer) return Status::kSwitched;
  if (the_hook.engine && the_hook.engine->times(top->frame) && the_hook.engine->tries(top->frame)) return Status::kAnew;
  bool plain = the_hook.policy == FramePolicy::kAll && is_untraced(top->code->object);
  if (!top->code->supported || (!plain && !is_wanted(thread, top->frame))) {
    --counters().frames_vm;
    count_foreign(thread, top->frame);
    return Status::kRefuse;
  }
  if (the_hook.engine) observer = the_hook.engine->starting(*this, *top);
  return Status::kSwitched;
}

Status Interpreter::finish(PyObject* value) {
  if (observer) observer->leaving(*this, *top, value);
  python::Frame* frame = top->frame;
  bool is_base = top == base;
  Resumption by = top->resumption;
  Continuation continuation;
  PyObject* held;
  dynrun_leave_python(thread);
  unlink_top(&continuation, &held);
  dynrun_clear_frame(thread, frame);
  if (is_base) {
    result = value;
    return Status::kDone;
  }
  if (by != Resumption::kNone) return generator_returned(by, value);
  if (continuation == Continuation::kPushResult && !tracing_switched()) {
    top->push(value);
    return Status::kSwitched;
  }
  return deliver(continuation, held, value);
}

bool Interpreter::resume_inside(PyObject* generator, PyObject* sent, Resumption by, Status* status) {
  if (stressing()) return false;
  python::Frame* frame = dynrun_resumable_frame(generator, sent);
  if (!frame || !bytecode::decode(frame->code)->supported) return false;
  const bool untraced = is_untraced(frame->code);
  if (observer) {
    if (!untraced || !observer->follows(*this, generator)) return false;
  } else {
    bool plain = the_hook.policy == FramePolicy::kAll && untraced;
    if (the_hook.engine && the_hook.engine->resumes_apart(frame)) return false;
    if (!plain && !is_wanted(thread, frame)) return false;
  }
  dynrun_resume_generator(thread, generator, sent);
  Activation* resumed = start(frame, Continuation::kPushResult, nullptr);
  if (resumed) resumed->resumption = by, resumed->followed = observer != nullptr;
  *status = resumed ? Status::kSwitched : Status::kError;
  return true;
}

Status Interpreter::generator_yielded(PyObject* value) {
  top->push(value);
  return tracing_switched() ? Status::kHandOver : Status::kSwitched;
}

Status Interpreter::generator_returned(Resumption by, PyObject* value) {
  const Instruction& caller = top->code->instructions[top->pc - 1];
  if (by == Resumption::kForIter) {
    top->pc = caller.argument + 1;  // behind the END_FOR
    PyObject* iterator = top->pop();
    Py_DECREF(value);
    Py_DECREF(iterator);
  } else {
    top->pc = caller.argument;
    top->push(value);
  }
  return tracing_switched() ? Status::kHandOver : Status::kSwitched;
}

Status Interpreter::yield(PyObject* value) {
  python::Frame* frame = top->frame;
  bool inside = top->resumption != Resumption::kNone;
  Continuation continuation;
  PyObject* held;
  dynrun_leave_python(thread);
  unlink_top(&continuation, &held);
  dynrun_suspend_generator(thread, frame);
  frame->previous = nullptr;
  if (inside) return generator_yielded(value);
  result = value;
  return Status::kDone;
}

Status Interpreter::deliver(Continuation continuation, PyObject* held, PyObject* value) {
  Status status = Status::kSwitched;
  switch (continuation) {
    case Continuation::kPushResult:
      top->push(value);
      break;
    case Continuation::kDropPushHeld:
      if (value == Py_None) {
        top->push(held);
      } else {
        PyErr_Format(PyExc_TypeError, "__init__() should return None, not '%.200s'", Py_TYPE(value)->tp_name);
        Py_DECREF(held);
        status = Status::kError;
      }
      Py_DECREF(value);
      break;
    case Continuation::kDrop:
      Py_DECREF(value);
      break;
    case Continuation::kPushTruth:
    case Continuation::kPushNotTruth: {
      int truth = PyObject_IsTrue(value);
      Py_DECREF(value);
      if (truth < 0) return Status::kError;
      top->push(Py_NewRef(truth == (continuation == Continuation::kPushTruth) ? Py_True : Py_False));
      break;
    }
    case Continuation::kReturnBase:
      result = value;
      return Status::kDone;
  }
  if (status == Status::kSwitched && tracing_switched()) return Status::kHandOver;
  return status;
}

// ---- errors ----

bool Interpreter::unwind(bool add_traceback) {
  for (;;) {
    Activation& here = *top;
    if (borrowed && &here == base && !find_handler(*here.code, here.pc - 1)) {
      if (observer) observer->leaving(*this, here, nullptr);
      raised_ = true;
      return false;
    }
    if (add_traceback) {
      dynrun_traceback_here(thread, here.frame);
      if (tracing_switched()) dynrun_trace_raised(thread);
    }
    if (const bytecode::ExceptionHandler* handler = find_handler(*here.code, here.pc - 1)) {
      PyObject** new_top = here.stack_base() + handler->depth;
      while (here.stack_pointer > new_top) Py_XDECREF(here.pop());
      if (handler->push_lasti) {
        std::ptrdiff_t last = here.frame->previous_instruction - code_units(here.frame->code);
        PyObject* number = PyLong_FromLong(static_cast<long>(last));
        if (!number) {
          add_traceback = false;
          continue;
        }
        here.push(number);
      }
      here.push(PyErr_GetRaisedException());
      here.pc = handler->target;
      return !tracing_switched() || hand_over();
    }
    while (here.stack_pointer > here.stack_base()) Py_XDECREF(here.pop());
    if (observer) observer->leaving(*this, here, nullptr);
    python::Frame* frame = here.frame;
    Continuation continuation;
    PyObject* held;
    dynrun_leave_python(thread);
    unlink_top(&continuation, &held);
    dynrun_clear_frame(thread, frame);
    Py_XDECREF(held);
    if (!top) {
      result = nullptr;
      return false;
    }
    add_traceback = true;
  }
}

// ---- hand-over ----

// The top frame goes to CPython's evaluator, in a C call of its own; its caller goes on here with the result.
bool Interpreter::hand_over() {
  if (borrowed && top == base) return false;
  if (observer && tracing_switched()) std::exchange(observer, nullptr)->interrupted(*this);  // its own frame may go
  python::Frame* frame = top->frame;
  if (top->code->supported) {
    const Instruction& next = top->code->instructions[top->pc];
    frame->previous_instruction = code_units(frame->code) + next.first_offset - 1;
  }
  if (dynrun_is_monitored(thread, frame->code)) {
    --counters().frames_vm;
    ++counters().frames_traced;
  } else {
    ++counters().handed_over;
  }
  return leave_to_cpython();
}

// The top frame, which is counted and stands where it is to go on, runs in CPython's evaluator.
bool Interpreter::leave_to_cpython() {
  python::Frame* frame = top->frame;
  bool is_base = top == base;
  Resumption by = top->resumption;
  PyObject* generator = by == Resumption::kNone ? nullptr : dynrun_generator_of(frame);  // on its caller's stack
  Continuation continuation;
  PyObject* held;
  unlink_top(&continuation, &held);
  PyObject* value = evaluate_in_cpython(thread, frame, false, true);
  if (is_base) {
    result = value;
    return false;
  }
  if (value && generator)
    return settle(dynrun_is_suspended(generator) ? generator_yielded(value) : generator_returned(by, value));
  if (value) return settle(deliver(continuation, held, value));
  Py_XDECREF(held);
  return unwind(true);
}

// The top frame, at its first instruction, gets a machine of its own if anybody wants it, else CPython's evaluator.
bool Interpreter::run_anew() {
  python::Frame* frame = top->frame;
  frame->previous_instruction = code_units(frame->code) - 1;
  Continuation continuation;
  PyObject* held;
  dynrun_leave_python(thread);
  --counters().frames_vm;
  unlink_top(&continuation, &held);
  PyObject* value = evaluate_anew(thread, frame);
  if (value) return settle(deliver(continuation, held, value));
  Py_XDECREF(held);
  return unwind(true);
}

// ---- the loop ----

// Does what `status` asks for beyond going on. False: the machine is done.
bool Interpreter::settle(Status status) {
  switch (status) {
    case Status::kNext:
    case Status::kSwitched:
      return true;
    case Status::kError:
      return unwind(true);
    case Status::kUnwind:
      return unwind(false);
    case Status::kRetreat:
      --top->pc;
      return hand_over();
    case Status::kHandOver:
      return hand_over();
    case Status::kRefuse:
      return leave_to_cpython();
    case Status::kAnew:
      return run_anew();
    case Status::kDone:
      return false;
  }
  return false;
}

// Does what an observer decided instead of executing. False: the machine is done.
bool Interpreter::observe(Decision decision) {
  switch (decision) {
    case Decision::kExecute:
    case Decision::kResume:
      return true;
    case Decision::kReplayed:
      if (!wants_attention() || attend() == 0) return true;
      [[fallthrough]];
    case Decision::kRaise: {
      const Instruction& raising = top->code->instructions[top->pc];
      top->frame->previous_instruction = code_units(top->frame->code) + raising.offset;
      ++top->pc;
      return unwind(true);
    }
    case Decision::kHandOver:
      return hand_over();
    case Decision::kRunAnew:
      return run_anew();
    case Decision::kReturn:
      while (top) drop_top();
      return false;
  }
  return false;
}

template <bool kObserved>
bool Interpreter::loop() {
  for (;;) {
    if (static_cast<bool>(observer) != kObserved) return true;
    Activation* here = top;
    if (borrowed && here == base && (!kObserved || leaves_loop(*here))) return false;
    if (kObserved && here->resumption != Resumption::kNone && !here->followed) {
      // Back in a generator that was resumed inside this machine before the observer came.
      if (the_hook.engine) the_hook.engine->finished(*this);
      observer = nullptr;
      return true;
    }
    const Instruction* instructions = here->code->instructions.data();
    std::uint16_t* units = code_units(here->frame->code);
    Status status;
    if constexpr (kObserved) {
      Instruction instruction = instructions[here->pc];                // a copy: its code may die with the frame
      here->frame->previous_instruction = units + instruction.offset;  // what the observer runs is on this line
      Decision decision = observer->before(*this, *here, instruction);
      if (decision != Decision::kExecute) {
        if (!observe(decision)) return false;
        continue;
      }
      if (stressing() && stress_wants(*here->code, here->pc)) {
        if (!hand_over()) return false;
        continue;
      }
      here->frame->previous_instruction = units + instruction.offset;
      ++here->pc;
      status = kOperations[static_cast<int>(instruction.opcode)](*this, *here, instruction);
      bool raised = status == Status::kError || status == Status::kUnwind;
      if (status != Status::kNext && !settle(status)) return false;
      if (observer) observer->after(*this, instruction, raised);
    } else {
      if (stressing() && stress_wants(*here->code, here->pc)) {
        if (!hand_over()) return false;
        continue;
      }
      const bool one_by_one = stressing();
      const HotFrame hot{*this, here->frame->localsplus, here->frame->code, here->code->caches.data(), here->frame};
      std::int32_t pc = here->pc;
      PyObject** sp = here->stack_pointer;
      do {
        HotResult ran = HotResult::kSlow;
        if (one_by_one) {
          hot.frame->previous_instruction = units + instructions[pc++].offset;
        } else {
          ran = run_hot(hot, instructions, pc, sp);
        }
        const Instruction& instruction = instructions[pc - 1];
        here->pc = pc;
        here->stack_pointer = sp;
        status = ran == HotResult::kError ? Status::kError
                                          : kOperations[static_cast<int>(instruction.opcode)](*this, *here, instruction);
        if (status != Status::kNext) break;
        pc = here->pc;
        sp = here->stack_pointer;
      } while (!one_by_one);
      if (status == Status::kNext) {
        here->pc = pc;
        here->stack_pointer = sp;
        continue;
      }
      if (status != Status::kSwitched && !settle(status)) return false;
    }
  }
}

PyObject* Interpreter::run_base(python::Frame* frame, bool throwing) {
  // Counted as CPython counts it; but below a frame that CPython evaluates it might have been inlined there, had there been
  // no hook: then only the real stack limits.
  auto* caller = reinterpret_cast<python::Frame*>(thread->cframe->current_frame);
  bool from_vm = !caller || (parent && parent->top && parent->top->frame == caller);
  bool counted = from_vm && frame->owner != python::kOwnedByGenerator;
  if (dynrun_check_stack() < 0 || (counted && dynrun_enter_evaluator(thread) < 0)) {
    dynrun_clear_frame(thread, frame);
    return nullptr;
  }
  make_current();
  if (start(frame, Continuation::kReturnBase, nullptr)) {
    bool running = true;
    if (throwing) {
      running = settle(Status::kError);
      // What a handler or a finally block does is seen as well.
      if (running && the_hook.engine && frame->owner == python::kOwnedByGenerator) observer = the_hook.engine->resuming(*this, *top);
    } else if (the_hook.engine) {
      bool generator = frame->owner == python::kOwnedByGenerator;
      observer = generator ? the_hook.engine->resuming(*this, *top) : the_hook.engine->starting(*this, *top);
    }
    while (running) running = observer ? loop<true>() : loop<false>();
    if (the_hook.engine) the_hook.engine->finished(*this);
    observer = nullptr;
  }
  leave_current();
  if (counted) dynrun_leave_evaluator(thread);
  return result;
}

PyObject* run_frame(PyThreadState* thread, python::Frame* frame, bool throwing) {
  return Interpreter(thread).run_base(frame, throwing);
}

Machine* current_machine() {
  return current;
}

}  // namespace dynrun::vm
