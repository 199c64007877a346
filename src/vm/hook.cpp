// Which frames the VM takes, and the PEP 523 hook that offers them.

#include "vm/hook.h"

#include "vm/interpreter.h"

namespace dynrun::vm {

Hook the_hook;

namespace {

// A generator function's own frame only makes the generator: CPython does that.
bool makes_generator(python::Frame* frame) {
  constexpr int kGenerators = CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR;
  return (frame->code->co_flags & kGenerators) && frame->owner != python::kOwnedByGenerator;
}

PyObject* evaluate(PyThreadState* thread, python::Frame* frame, int throwing) {
  auto in_cpython = [&] {
    count_foreign(thread, frame);
    return the_hook.left_runner ? the_hook.left_runner(thread, frame, throwing) : evaluate_left(thread, frame, throwing);
  };
  auto as_ever = [&] {
    const bool here = is_wanted(thread, frame) && bytecode::decode(frame->code)->supported;
    return here ? run_frame(thread, frame, throwing) : in_cpython();
  };
  if (!the_hook.engine || !the_hook.engine->times(frame)) return as_ever();
  return the_hook.engine->timed(frame, as_ever, in_cpython);
}

/// Finalisers and callbacks that the garbage collector runs, in the middle of whatever C function looked for signals, are not what the
/// program does next. (With more threads it may be another one's collection that waits: see Engine::watching.)
PyObject* hook(PyThreadState* thread, python::Frame* frame, int throwing) {
  if (!the_hook.engine || !dynrun_is_collecting(thread) || !dynrun_is_only_thread()) return evaluate(thread, frame, throwing);
  PyObject* result = nullptr;
  the_hook.engine->unrecorded([&] { result = evaluate(thread, frame, throwing); });
  return result;
}

}  // namespace

PyObject* evaluate_anew(PyThreadState* thread, python::Frame* frame) { return evaluate(thread, frame, 0); }

void count_foreign(PyThreadState* thread, python::Frame* frame) {
  if (makes_generator(frame)) return;
  ++(dynrun_is_monitored(thread, frame->code) ? counters().frames_traced : counters().frames_cpython);
}

PyObject* evaluate_left(PyThreadState* thread, python::Frame* frame, bool throwing) { return evaluate_in_cpython(thread, frame, throwing, false); }

PyObject* evaluate_in_cpython(PyThreadState* thread, python::Frame* frame, bool throwing, bool began) {
  if (!dynrun_is_monitored(thread, frame->code)) return dynrun_evaluate(thread, frame, throwing, began);
  // A hook changes which events a tracer sees (no call is inlined): there is none while this frame runs.
  dynrun_set_hook(nullptr);
  PyObject* result = dynrun_evaluate(thread, frame, throwing, began);
  if (the_hook.installed) dynrun_set_hook(&hook);
  return result;
}

bool is_wanted(PyThreadState* thread, python::Frame* frame) {
  if (the_hook.policy == FramePolicy::kOff) return false;
  if (makes_generator(frame)) return false;
  if (dynrun_is_monitored(thread, frame->code)) return false;
  return the_hook.policy == FramePolicy::kAll || !the_hook.filter || the_hook.filter(frame);
}

bool sees_frames() {
  auto installed = reinterpret_cast<void*>(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()));
  return the_hook.installed && installed == reinterpret_cast<void*>(&hook);
}

bool is_displaced() {
  static PyInterpreterState* const interpreter = PyInterpreterState_Main();
  const _PyFrameEvalFunction installed = _PyInterpreterState_GetEvalFrameFunc(interpreter);
  return installed != &_PyEval_EvalFrameDefault && reinterpret_cast<void*>(installed) != reinterpret_cast<void*>(&hook);
}

PlainFrames::PlainFrames() : off_(sees_frames() && the_hook.policy != FramePolicy::kAll && !the_hook.stress && dynrun_is_only_thread()) {
  if (!off_) return;
  dynrun_set_hook(nullptr);
  the_hook.plain = true;
}

PlainFrames::~PlainFrames() {
  if (!off_) return;
  see_frames_again();
  the_hook.plain = false;
}

void see_frames_again() {
  auto installed = reinterpret_cast<void*>(_PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get()));
  // Another one's, which it left there, stays; and a tracer's frames see none.
  if (the_hook.plain && the_hook.installed && installed == reinterpret_cast<void*>(&_PyEval_EvalFrameDefault)) dynrun_set_hook(&hook);
}

void set_engine(Engine* engine) {
  the_hook.engine = engine;
}
void set_frame_policy(FramePolicy chosen) {
  the_hook.policy = chosen;
}
void set_frame_filter(bool (*wants)(python::Frame* frame)) {
  the_hook.filter = wants;
}
void set_left_runner(PyObject* (*run)(PyThreadState* thread, python::Frame* frame, bool throwing)) {
  the_hook.left_runner = run;
}
Counters& counters() {
  return the_hook.counters;
}

void set_hand_over_stress(bool on) {
  the_hook.stress = on;
}
bool stress_wants(const bytecode::Code& code, int pc) {
  code.handed_over.resize(code.instructions.size());
  if (code.handed_over[pc]) return false;
  code.handed_over[pc] = true;
  return true;
}

const char* install_frame_hook() {
  if (const char* wrong = dynrun_check_internals()) return wrong;
  the_hook.installed = true;
  dynrun_set_hook(&hook);
  return nullptr;
}

void remove_frame_hook() {
  the_hook.installed = false;
  dynrun_set_hook(nullptr);
}

}  // namespace dynrun::vm
