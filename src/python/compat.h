#pragma once
// What dynrun needs of CPython that its public API does not offer. One implementation file a CPython version
// (compat_3_12.c); this header is the seam. Everything here needs the GIL unless it says otherwise.

#ifdef __cplusplus
#include "python/frame.h"
typedef dynrun::python::Frame DynrunFrame;
#define DYNRUN_OFFSET(frame_field, mirror_field) mirror_field
#else
#include <Python.h>
typedef struct _PyInterpreterFrame DynrunFrame;
#define DYNRUN_OFFSET(frame_field, mirror_field) frame_field
#endif

#include <stddef.h>
#include <stdint.h>

/// Field offsets that frame.h's mirror and CPython's frame must share: asserted on both sides.
#define DYNRUN_FRAME_LAYOUT(X)                           \
  X(DYNRUN_OFFSET(f_code, code), 0)                      \
  X(DYNRUN_OFFSET(previous, previous), 8)                \
  X(DYNRUN_OFFSET(f_funcobj, function), 16)              \
  X(DYNRUN_OFFSET(f_globals, globals), 24)               \
  X(DYNRUN_OFFSET(f_builtins, builtins), 32)             \
  X(DYNRUN_OFFSET(f_locals, locals), 40)                 \
  X(DYNRUN_OFFSET(frame_obj, frame_object), 48)          \
  X(DYNRUN_OFFSET(prev_instr, previous_instruction), 56) \
  X(DYNRUN_OFFSET(stacktop, stack_top), 64)              \
  X(DYNRUN_OFFSET(return_offset, return_offset), 68)     \
  X(DYNRUN_OFFSET(owner, owner), 70)                     \
  X(DYNRUN_OFFSET(localsplus, localsplus), 72)

#ifdef __cplusplus
extern "C" {
#endif

/// Pushes a frame for `function` (borrowed) on the thread's data stack with every local null. Not linked. Null: MemoryError.
DynrunFrame* dynrun_push_frame(PyThreadState* thread, PyObject* function);

/// Pushes a frame and binds arguments to it as a call does. Arguments are stolen, on failure too. `locals` (stolen, may be
/// null) is the frame's f_locals. Null: an error is set, the one that CPython raises for that call.
DynrunFrame* dynrun_push_call(PyThreadState* thread, PyObject* function, PyObject* locals, PyObject* const* arguments,
                              Py_ssize_t positional, PyObject* keyword_names);

/// Clears a frame that is no longer the current one, as at a return: its references go, unless a frame object takes it over;
/// a thread's frame is popped, a generator's is marked as finished. `stack_top` must be set.
void dynrun_clear_frame(PyThreadState* thread, DynrunFrame* frame);

/// Adds a traceback entry for the current frame (which must be `frame`) to the raised exception.
/// The frame object of a frame that runs (new reference); null with an error set, or without where it has not begun.
PyObject* dynrun_frame_object(PyThreadState* thread, DynrunFrame* frame);
void dynrun_traceback_here(PyThreadState* thread, DynrunFrame* frame);

/// Counts one Python call against the recursion limit: 0, or -1 with RecursionError set. Leave in both cases.
int dynrun_enter_python(PyThreadState* thread);
static inline void dynrun_leave_python(PyThreadState* thread) {
  thread->py_recursion_remaining++;
}

/// Counts one evaluator call on the C stack as CPython does: 0, or -1 with RecursionError set (then do not leave).
int dynrun_enter_evaluator(PyThreadState* thread);
void dynrun_leave_evaluator(PyThreadState* thread);

/// 0 when the C stack has room for another evaluator call, else -1 with RecursionError set.
int dynrun_check_stack(void);
/// Tells the lowest address of the calling thread's stack, where it is not the one the system made. Needs no GIL.
void dynrun_set_stack_low(void* low);

/// CPython's evaluator, not counted against the C recursion limit; the frame is consumed. `began` says that the frame is
/// already counted as a Python call (it was started by the VM).
PyObject* dynrun_evaluate(PyThreadState* thread, DynrunFrame* frame, int throwing, int began);

/// The flag that asks the evaluator to look up from its work (signals, the GIL, the garbage collector, pending calls).
const volatile int* dynrun_eval_breaker(PyThreadState* thread);
/// Whether the garbage collector is at work, for whichever thread.
int dynrun_is_collecting(PyThreadState* thread);
/// Does what was asked. 0, or -1 with an error set.
int dynrun_handle_pending(PyThreadState* thread);
/// Whether a signal has come in whose handler has not been run yet.
int dynrun_signal_waits(void);
/// Until the matching release no thread counts as the one that runs signal handlers. 0, and nothing to release, on a thread that
/// runs none.
unsigned long dynrun_hold_signals(void);
void dynrun_release_signals(unsigned long held);

/// Runs an intrinsic of CALL_INTRINSIC_1 or (with `second`) CALL_INTRINSIC_2 in CPython's evaluator: those that are not exported.
PyObject* dynrun_call_intrinsic(PyThreadState* thread, int number, PyObject* first, PyObject* second);

/// Where the number lies that changes whenever tracing, profiling or monitoring is switched.
const volatile uint64_t* dynrun_monitoring_version(PyThreadState* thread);
/// The tool of sys.monitoring that dynrun itself uses, the one set aside for optimisers, to watch loops that CPython runs.
#define DYNRUN_MONITORING_TOOL 5
/// Whether tracing, profiling or monitoring is active, anywhere or for this code. dynrun's own does not count.
int dynrun_is_monitored(PyThreadState* thread, PyCodeObject* code);
/// From now on code objects that are given events of their own (sys.monitoring.set_local_events) count as monitoring everywhere: a
/// replay runs the code of many functions.
void dynrun_watch_local_monitoring(void);

/// Tells the thread's trace function, where there is one, that the raised exception reached the current frame.
void dynrun_trace_raised(PyThreadState* thread);

/// The generator, coroutine or async generator that owns the frame (borrowed).
PyObject* dynrun_generator_of(DynrunFrame* frame);
/// Marks the generator of `frame` as suspended and takes its exception state off the thread's chain.
void dynrun_suspend_generator(PyThreadState* thread, DynrunFrame* frame);
/// The frame of a generator or coroutine that can go on with `sent`, or null.
DynrunFrame* dynrun_resumable_frame(PyObject* generator, PyObject* sent);
/// Marks a resumable generator as running, puts its exception state on the thread's chain and `sent` (stolen) on its stack.
void dynrun_resume_generator(PyThreadState* thread, PyObject* generator, PyObject* sent);
int dynrun_is_suspended(PyObject* generator);
/// The frame of a generator that runs or can go on (borrowed); null once it has finished.
DynrunFrame* dynrun_generator_frame(PyObject* generator);
int dynrun_is_running(PyObject* generator);
/// Whether a generator stands inside the handler of an exception.
int dynrun_generator_handles(PyObject* generator);
/// A new generator of `function` with empty locals, as if its body had not begun. Null with an error set.
PyObject* dynrun_new_generator(PyObject* function);
/// Puts a new generator at code unit `last`: its locals and then its stack are `slots` (borrowed, null for an empty one).
void dynrun_place_generator(PyObject* generator, int last, int suspended, PyObject* const* slots, int count);
/// As dynrun_resume_generator, with nothing put on the stack; gives the frame.
DynrunFrame* dynrun_start_generator(PyThreadState* thread, PyObject* generator);
/// What a suspended generator or coroutine waits for (new reference), or null without an error.
PyObject* dynrun_waiting_for(PyObject* generator);
/// `await`'s iterator of `object` (new reference). Null: an error is set, or none where the object cannot be awaited and
/// CPython words the error by its context.
PyObject* dynrun_awaitable_iterator(PyObject* object);
/// Whether `code` has its RESUME not yet begun: such a frame is invisible to tracebacks and inspection.
int dynrun_is_incomplete(DynrunFrame* frame);

/// A copy of an exact int that is no other object, a small one too.
PyObject* dynrun_unique_int(PyObject* number);

/// The dict (borrowed) that an iterator over its keys, values or items goes through, and how many of these it has given. 0: it is
/// through with them.
int dynrun_dict_iterator(PyObject* iterator, PyObject** dict, Py_ssize_t* given);
/// The iterator over a list goes on at `index`, which may lie behind the list's end as it is now. 0 for another kind of iterator.
int dynrun_place_list_iterator(PyObject* iterator, Py_ssize_t index);
/// Whether `variable.reset(token)` would do its work now.
int dynrun_resets(PyObject* token, PyObject* variable);

/// PEP 523.
typedef PyObject* (*DynrunHook)(PyThreadState* thread, DynrunFrame* frame, int throwing);
void dynrun_set_hook(DynrunHook hook);  // null: CPython's own evaluator
int dynrun_is_only_thread(void);       // of the interpreter
/// Null, or in one line what of this CPython differs from what dynrun was built for.
const char* dynrun_check_internals(void);

/// sys.displayhook and the import machinery's fast check.
PyObject* dynrun_import_function(PyThreadState* thread);  // the interpreter's own __import__, borrowed

#ifdef __cplusplus
}
#endif
