#pragma once
// The VM: runs Python frames by dynrun bytecode, with real objects, in CPython's own frames.
//
// One Machine is one run of the interpreter loop: it is made by the frame hook for one frame (its base) and runs the Python
// functions that frame calls without recursing in C, as a chain of activations. C code that calls Python again makes a nested
// Machine (`parent`). Everything here needs the GIL.
//
// Ownership: an activation's locals and stack slots live in its CPython frame and hold strong references. At every
// instruction boundary `Activation::pc` and `Activation::stack_pointer` are up to date while an observer is attached.

#include "bytecode/code.h"
#include "python/frame.h"
#include "vm/hook.h"

#include <Python.h>

#include <functional>

namespace dynrun::vm {

/// What happens to the caller when an inlined call returns `value`.
enum class Continuation : std::uint8_t {
  kPushResult,    // push it: an ordinary call, or a property, `__getattr__`, operator method run inline
  kDropPushHeld,  // drop it (must be None, else TypeError as for `__init__`), push `held`: an instance being constructed
  kDrop,          // drop it: `__setattr__`, `__setitem__`, `__delattr__`, a property setter
  kPushTruth,     // push bool(value): `__contains__`
  kPushNotTruth,  // push not bool(value)
  kReturnBase,    // the base activation: the Machine is done
};

/// What the caller of a generator that runs inside the machine was doing.
enum class Resumption : std::uint8_t { kNone, kForIter, kSend };

struct Activation {
  python::Frame* frame = nullptr;
  const bytecode::Code* code = nullptr;
  std::int32_t pc = 0;                                    // index into code->instructions of the instruction to run next
  PyObject** stack_pointer = nullptr;                     // one past the top
  Activation* caller = nullptr;                           // null for the base
  Continuation continuation = Continuation::kReturnBase;  // what the caller does with the result
  Resumption resumption = Resumption::kNone;
  bool followed = false;                                  // a generator's, resumed for the observer that is attached
  PyObject* held = nullptr;  // strong; for kDropPushHeld

  PyObject** locals() { return frame->localsplus; }
  PyObject** stack_base() { return frame->localsplus + code->locals_count; }
  int stack_depth() { return static_cast<int>(stack_pointer - stack_base()); }
  PyObject* peek(int from_top) { return stack_pointer[-from_top]; }  // 1 is the top
  void push(PyObject* strong) { *stack_pointer++ = strong; }
  PyObject* pop() { return *--stack_pointer; }
};

/// An observer's answer for the instruction at activation.pc.
enum class Decision : std::uint8_t {
  kExecute,  // run it as usual; `after` follows when it is done
  kResume,  // the observer has done it, or has changed the chain: look at machine.top again and go on (`after` does not follow)
  kReplayed,  // as kResume, by a replay: it may stand for many jumps, at which signals and the like would have been looked at
  kRaise,   // a Python error is set: unwind from this instruction
  kReturn,  // the base activation has returned machine.result
  kHandOver,  // give the top frame to CPython's evaluator; its caller goes on here
  kRunAnew,  // the top frame, at its first instruction, runs as though CPython had just called it; its caller goes on here
};

class Machine;

/// Sees every instruction of a machine while attached to it. All calls hold the GIL.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Before the instruction at machine.top->pc.
  virtual Decision before(Machine& machine, Activation& activation, const bytecode::Instruction& instruction) = 0;
  /// After an instruction that ran by kExecute. A call that pushed an activation, or a return, counts as done at once:
  /// machine.top has then changed. When `raised`, unwinding is complete: machine.top stands at the handler.
  virtual void after(Machine& machine, const bytecode::Instruction& instruction, bool raised) = 0;
  /// The frame of `activation` was pushed (an inlined call) or is about to be cleared, with its result (null: it raised).
  /// `entered` follows every push_call, also the observer's own, never push_frame. `leaving` comes before a return and before
  /// an unwound frame is cleared; not for a frame handed over, dropped by drop_top or ended by kReturn, nor for a yield.
  virtual void entered(Machine& machine, Activation& activation) = 0;
  virtual void leaving(Machine& machine, Activation& activation, PyObject* result) = 0;
  /// Whether the body of `generator`, which the machine is about to resume, shall run in the machine under the observer's eyes.
  virtual bool follows(Machine&, PyObject* /*generator*/) { return false; }
  /// The machine of a borrowed loop stops before the instruction at top->pc and gives the frame back to CPython.
  virtual void giving_back(Machine&) {}
  /// In the middle of an instruction a signal handler ran, or an exception came from elsewhere: nothing that the program says.
  /// The observer is no longer attached.
  virtual void interrupted(Machine&) {}
};

/// Asked by a machine without an observer whenever it is about to start a frame (base or inlined call; never a resumed
/// generator), and when a machine is created, so that hot code can be recorded or replayed.
/// Returns an observer to attach from now on, or null. `observer->before` is then called for the first instruction.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual Observer* starting(Machine& machine, Activation& activation) = 0;
  /// The same for a generator that is about to go on (or to start its body).
  virtual Observer* resuming(Machine&, Activation&) { return nullptr; }
  /// The same for a loop that CPython has lent to the machine: `activation` stands at its head.
  virtual Observer* looping(Machine&, Activation&) { return nullptr; }
  /// Whether a generator that a machine without an observer is about to resume shall get a machine of its own.
  virtual bool resumes_apart(python::Frame*) { return false; }
  /// Whether the call of a frame may have to be timed: then `timed` runs it, by one of these.
  virtual bool times(python::Frame*) { return false; }
  virtual bool tries(python::Frame*) { return false; }  // one of those
  virtual PyObject* timed(python::Frame*, const std::function<PyObject*()>& as_ever, const std::function<PyObject*()>&) { return as_ever(); }
  /// Runs `work` (signal handlers, the garbage collector: code that is not the program's next) without recording it.
  virtual void unrecorded(const std::function<void()>& work) { work(); }
  /// The machine is done or being unwound; an observer attached to it must let go.
  virtual void finished(Machine& machine) = 0;
};

class Machine {
 public:
  Activation* top = nullptr;
  Activation* base = nullptr;
  Machine* parent = nullptr;     // the machine of this thread that was running when C code called Python again
  Observer* observer = nullptr;  // detach by setting null: the machine then runs on at full speed
  PyObject* result = nullptr;    // strong; with Decision::kReturn
  bool borrowed = false;         // the base is a frame of CPython's evaluator, lent for a loop: it never returns here

  /// Pushes an activation that calls `function` (a PyFunctionObject, borrowed) with `positional` positional and then keyword
  /// arguments named by `keyword_names` (null or a tuple). Arguments are stolen, on failure too. The caller's pc must already
  /// stand behind the calling instruction and its operands be popped. Returns null with a TypeError set when binding fails.
  /// A generator or coroutine function is no inlined call: ask `is_inlinable` first.
  Activation* push_call(PyObject* function, PyObject* const* arguments, Py_ssize_t positional, PyObject* keyword_names,
                        Continuation continuation, PyObject* held = nullptr);

  /// Pushes an activation for `function` with an empty frame (every local null, stack empty, pc 0), to be filled by the caller:
  /// how a replayed segment rebuilds the frames of its exit. `call_pc` of the caller must already stand behind the call.
  Activation* push_frame(PyObject* function, Continuation continuation, PyObject* held = nullptr);

  /// Pushes an activation that runs on in a generator that dynrun_new_generator made, with an empty stack, to be filled by the
  /// caller as by push_frame. The caller's activation stands behind what resumed it.
  Activation* push_generator(PyObject* generator, Resumption by);

  /// Clears the top frame and drops it without a result (a replayed segment's exit has fewer frames than its entry had).
  void drop_top();

  /// A Python function whose code is no generator, coroutine or async generator, and that no other evaluator is to see.
  static bool is_inlinable(PyObject* callable) {
    if (!PyFunction_Check(callable)) return false;
    auto* function = reinterpret_cast<PyFunctionObject*>(callable);
    if (function->vectorcall != _PyFunction_Vectorcall) return false;
    int flags = reinterpret_cast<PyCodeObject*>(function->func_code)->co_flags;
    return !(flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) && !is_displaced();
  }
};

/// Runs `frame` to its end in a new machine: the frame hook's body. `throwing` as for _PyEval_EvalFrameDefault.
PyObject* run_frame(PyThreadState* thread, python::Frame* frame, bool throwing);

/// How a borrowed loop went.
enum class Lent : std::uint8_t {
  kRefused,  // nothing was done
  kRan,      // the frame stands at the instruction that CPython is to run next
  kRaised,   // a Python error is set that no handler of the loop takes: CPython is to raise it from where the frame stands
};
/// Takes over `frame`, which runs in CPython's evaluator and has just jumped backward to instruction `head`, and runs it as long
/// as it stays within [head, last], does not return, and an observer looks on. The frame's stack pointer must be stored.
Lent run_loop(PyThreadState* thread, python::Frame* frame, std::int32_t head, std::int32_t last);

/// The machine that runs on this thread, or null.
Machine* current_machine();

/// `engine` is asked about every frame that a machine starts. Null (the default): plain execution.
void set_engine(Engine* engine);

/// Which frames the hook gives to the VM.
enum class FramePolicy : std::uint8_t {
  kOff,   // none: CPython runs everything
  kAll,   // every frame
  kAuto,  // those that `set_frame_filter`'s function accepts
};
void set_frame_policy(FramePolicy policy);
/// Called for each frame under kAuto, before its first instruction, cheaply. A frame it declines runs in CPython.
void set_frame_filter(bool (*wants)(python::Frame* frame));

/// Installs the PEP 523 hook in the current interpreter and checks CPython's internals against what dynrun was built for.
/// Returns null, or what is wrong, in one line.
const char* install_frame_hook();
void remove_frame_hook();

/// Runs a frame that is left to CPython, to its end. Consumes it.
PyObject* evaluate_left(PyThreadState* thread, python::Frame* frame, bool throwing);
/// Called for each of these in the place of `evaluate_left`, which it calls. Null (the default): nothing is.
void set_left_runner(PyObject* (*run)(PyThreadState* thread, python::Frame* frame, bool throwing));

struct Counters {
  std::uint64_t frames_vm = 0;       // frames started or resumed in the VM
  std::uint64_t frames_cpython = 0;  // frames that the hook gave to CPython's evaluator, untraced
  std::uint64_t handed_over = 0;     // of frames_vm, those that ended in CPython though nobody traced them
  std::uint64_t frames_traced = 0;   // frames that ran or ended in CPython because tracing, profiling or monitoring was on
};
Counters& counters();

/// Test mode: hands each distinct (code object, instruction) boundary to CPython's evaluator once.
void set_hand_over_stress(bool on);

}  // namespace dynrun::vm
