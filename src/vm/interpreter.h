#pragma once
// The interpreter's inside: what opcodes see of a Machine, and the loop that runs them.
//
// Working rules. Every function needs the GIL. An opcode takes its operands off the stack before it can raise, or leaves them
// for the unwinder, never half. `pc` already stands behind the running instruction, so the raising instruction is always
// pc - 1. A frame is unlinked before it is cleared. Nothing here throws C++ exceptions.

#include "python/compat.h"
#include "vm/machine.h"

namespace dynrun::vm {

/// How an opcode ended.
enum class Status : std::uint8_t {
  kNext,      // go on with top->pc of the same activation
  kError,     // an error is set: add a traceback entry and unwind
  kUnwind,    // an error is set that keeps its traceback: unwind
  kSwitched,  // machine.top is another activation
  kHandOver,  // give the top frame to CPython's evaluator, at top->pc
  kRefuse,    // the top frame, just pushed, is none that the VM runs: give it to CPython's evaluator
  kAnew,     // the top frame, just begun, is to be run as though CPython had called it
  kRetreat,   // as kHandOver, but at the instruction that just ran and did nothing
  kDone,      // the machine's result is set, or an error that left the base
};

class Interpreter final : public Machine {
 public:
  explicit Interpreter(PyThreadState* state);

  /// Runs `frame` as the base. The frame is consumed.
  PyObject* run_base(python::Frame* frame, bool throwing);
  /// See vm::run_loop. (borrow.cpp)
  Lent run_borrowed(python::Frame* frame, std::int32_t head, std::int32_t last);

  /// The activation that runs `frame`, linked on top. Null, with RecursionError set and the frame cleared, when too deep.
  Activation* start(python::Frame* frame, Continuation continuation, PyObject* held);
  /// A frame was just pushed by the interpreter itself: who runs it, and does the engine want to look on?
  Status began_call();
  /// The top activation returns `value` (stolen).
  Status finish(PyObject* value);
  /// The top activation, a generator's, yields `value` (stolen).
  Status yield(PyObject* value);
  /// Resumes a generator or coroutine with `sent` (stolen on success) as a call of the top activation. False: nothing was done.
  bool resume_inside(PyObject* generator, PyObject* sent, Resumption by, Status* status);
  /// Gives the result of a call to the activation that made it (the top). Steals both.
  Status deliver(Continuation continuation, PyObject* held, PyObject* value);

  /// Whether nothing traces, profiles or monitors frames of `code`. False: perhaps something does.
  bool is_untraced(PyCodeObject* code) const {
    return !thread->c_tracefunc && !thread->c_profilefunc && *monitoring_version_ == known_monitoring_version_ &&
           !code->_co_monitoring;
  }
  bool wants_attention() const { return *eval_breaker_ != 0; }
  /// After a call into C: signals and the like, and a switch to tracing.
  Status after_call() {
    if (wants_attention() && attend() < 0) return Status::kError;
    return tracing_switched() ? Status::kHandOver : Status::kNext;
  }
  Status check_attention() { return wants_attention() && attend() < 0 ? Status::kError : Status::kNext; }
  /// Signals and the like. Negative with a Python error set.
  int attend();

  PyThreadState* const thread;

  Activation* link(python::Frame* frame, Continuation continuation, PyObject* held);
  void unlink_top(Continuation* continuation, PyObject** held);

 private:
  template <bool kObserved>
  bool loop();
  bool settle(Status status);
  bool unwind(bool add_traceback);
  bool hand_over();
  bool leave_to_cpython();
  bool run_anew();
  Status generator_yielded(PyObject* value);
  Status generator_returned(Resumption by, PyObject* value);
  bool observe(Decision decision);
  /// Whether tracing, profiling or monitoring was switched since the machine began, and now concerns the top frame.
  bool tracing_switched() const {
    return *monitoring_version_ != known_monitoring_version_ && dynrun_is_monitored(thread, top->code->object);
  }
  void set_current(python::Frame* frame);
  void make_current();
  void leave_current();
  bool lend(python::Frame* frame, std::int32_t head);
  void give_back();
  bool leaves_loop(const Activation& here) const;
  bool raise_in_cpython();
  int find_plain_reraise() const;

  const volatile int* const eval_breaker_;
  const volatile std::uint64_t* const monitoring_version_;
  std::uint64_t known_monitoring_version_;
  std::int32_t loop_head_ = 0, loop_last_ = 0;  // of a borrowed loop
  bool raised_ = false;                         // a borrowed loop ends with an error
};

Activation* new_activation();
void free_activation(Activation* activation);
const bytecode::ExceptionHandler* find_handler(const bytecode::Code& code, int index);

/// The code units of `code`, as Frame::previous_instruction points into.
inline std::uint16_t* code_units(PyCodeObject* code) {
  return reinterpret_cast<std::uint16_t*>(code->co_code_adaptive);
}

/// What decides about new frames.
struct Hook {
  Engine* engine = nullptr;
  FramePolicy policy = FramePolicy::kOff;
  bool (*filter)(python::Frame*) = nullptr;
  PyObject* (*left_runner)(PyThreadState*, python::Frame*, bool) = nullptr;
  Counters counters;
  bool stress = false;
  bool installed = false;
  bool plain = false;  // PlainFrames have taken it off
};
extern Hook the_hook;

/// Whether the hook gives this new or resumed frame to the VM.
bool is_wanted(PyThreadState* thread, python::Frame* frame);
/// Runs `frame`, which is consumed, in CPython's evaluator; `began`: the VM has counted it as a call.
PyObject* evaluate_in_cpython(PyThreadState* thread, python::Frame* frame, bool throwing, bool began);
/// Counts `frame`, which CPython is going to run from its start.
void count_foreign(PyThreadState* thread, python::Frame* frame);
/// A new frame, as though CPython had just called it: in a machine of its own if anybody wants it.
PyObject* evaluate_anew(PyThreadState* thread, python::Frame* frame);
/// Hand-over stress: whether this boundary is to be handed over now (once for each).
bool stress_wants(const bytecode::Code& code, int pc);
inline bool stressing() {
  return the_hook.stress;
}

}  // namespace dynrun::vm
