// compat.h for CPython 3.12: the only file that sees CPython's internal headers.
//
// Working rules: a frame is unlinked (the thread's current frame is another one) before it is cleared, because clearing runs
// destructors. A frame whose frame object survives is copied into it. Data stack chunks come from the arena allocator,
// because CPython frees them there.

#define _GNU_SOURCE
#define Py_BUILD_CORE 1
#include "compat.h"

#include <Python.h>
#include <pthread.h>

#include "internal/pycore_ceval.h"
#include "internal/pycore_code.h"
#include "internal/pycore_context.h"
#include "internal/pycore_frame.h"
#include "internal/pycore_interp.h"
#include "internal/pycore_list.h"
#include "internal/pycore_long.h"
#include "internal/pycore_pystate.h"
#include "opcode.h"

#if PY_VERSION_HEX < 0x030C0000 || PY_VERSION_HEX >= 0x030D0000
#error "compat_3_12.c is for CPython 3.12"
#endif

#define ASSERT_OFFSET(field, offset) _Static_assert(offsetof(_PyInterpreterFrame, field) == (offset), #field);
DYNRUN_FRAME_LAYOUT(ASSERT_OFFSET)
#undef ASSERT_OFFSET
_Static_assert(sizeof(_Py_CODEUNIT) == sizeof(uint16_t), "code unit");

enum { kEvaluatorUnits = 2 };      // PY_EVAL_C_STACK_UNITS of ceval.c
enum { kChunkBytes = 16 * 1024 };  // a data stack chunk, and what it must leave free
enum { kChunkOverhead = 1000 };
enum { kStackReserve = 192 * 1024 };  // bytes of C stack that an evaluator call must find

// ---- frames on the data stack ----

static PyObject** push_chunk(PyThreadState* thread, int slots) {
  size_t bytes = kChunkBytes;
  while (bytes < sizeof(PyObject*) * (size_t)(slots + kChunkOverhead)) bytes *= 2;
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  _PyStackChunk* chunk = arena.alloc(arena.ctx, bytes);
  if (chunk == NULL) return NULL;
  chunk->previous = thread->datastack_chunk;
  chunk->size = bytes;
  chunk->top = 0;
  if (thread->datastack_chunk) {
    thread->datastack_chunk->top = (size_t)(thread->datastack_top - &thread->datastack_chunk->data[0]);
  }
  thread->datastack_chunk = chunk;
  thread->datastack_limit = (PyObject**)((char*)chunk + bytes);
  PyObject** base = &chunk->data[chunk->previous == NULL];  // the root chunk's first slot stays unused: it is never popped
  thread->datastack_top = base + slots;
  return base;
}

static void pop_frame(PyThreadState* thread, _PyInterpreterFrame* frame) {
  PyObject** base = (PyObject**)frame;
  _PyStackChunk* chunk = thread->datastack_chunk;
  if (base != &chunk->data[0]) {
    thread->datastack_top = base;
    return;
  }
  _PyStackChunk* previous = chunk->previous;
  thread->datastack_top = &previous->data[previous->top];
  thread->datastack_chunk = previous;
  thread->datastack_limit = (PyObject**)((char*)previous + previous->size);
  PyObjectArenaAllocator arena;
  PyObject_GetArenaAllocator(&arena);
  arena.free(arena.ctx, chunk, chunk->size);
}

static _PyInterpreterFrame* push_frame(PyThreadState* thread, PyObject* function, PyObject* locals) {
  PyCodeObject* code = (PyCodeObject*)((PyFunctionObject*)function)->func_code;
  PyObject** base;
  if (_PyThreadState_HasStackSpace(thread, code->co_framesize)) {
    base = thread->datastack_top;
    thread->datastack_top += code->co_framesize;
  } else {
    base = push_chunk(thread, code->co_framesize);
    if (base == NULL) {
      Py_XDECREF(locals);
      PyErr_NoMemory();
      return NULL;
    }
  }
  _PyInterpreterFrame* frame = (_PyInterpreterFrame*)base;
  _PyFrame_Initialize(frame, (PyFunctionObject*)Py_NewRef(function), locals, code, 0);
  frame->previous = NULL;
  return frame;
}

DynrunFrame* dynrun_push_frame(PyThreadState* thread, PyObject* function) {
  return push_frame(thread, function, NULL);
}

// ---- argument binding ----

// The arguments of one call. `locals` steals the named positional ones at once; *args, **kwargs and keyword parameters take
// references of their own, so that a failed binding leaves the arguments as they were.
typedef struct {
  PyFunctionObject* function;
  PyCodeObject* code;
  PyObject** locals;
  PyObject* const* arguments;
  Py_ssize_t positional;
  PyObject* keyword_names;
  Py_ssize_t total;  // named parameters
  PyObject* extra_keywords;
} Binding;

static int bind_positional(Binding* b) {
  Py_ssize_t named = b->positional < b->code->co_argcount ? b->positional : b->code->co_argcount;
  for (Py_ssize_t i = 0; i < named; i++) b->locals[i] = b->arguments[i];
  if (b->code->co_flags & CO_VARARGS) {
    PyObject* rest = PyTuple_New(b->positional - named);
    if (rest == NULL) return -1;
    for (Py_ssize_t i = named; i < b->positional; i++) PyTuple_SET_ITEM(rest, i - named, Py_NewRef(b->arguments[i]));
    b->locals[b->total] = rest;
  } else if (b->positional > named) {
    return -1;
  }
  return 0;
}

// The parameter called `name` that may be passed by keyword, `total` if there is none, -1 on error.
static Py_ssize_t find_parameter(Binding* b, PyObject* name) {
  PyObject** names = ((PyTupleObject*)b->code->co_localsplusnames)->ob_item;
  for (Py_ssize_t i = b->code->co_posonlyargcount; i < b->total; i++) {
    if (names[i] == name) return i;
  }
  for (Py_ssize_t i = b->code->co_posonlyargcount; i < b->total; i++) {
    int equal = PyObject_RichCompareBool(name, names[i], Py_EQ);
    if (equal < 0) return -1;
    if (equal) return i;
  }
  return b->total;
}

static int bind_keywords(Binding* b) {
  Py_ssize_t count = PyTuple_GET_SIZE(b->keyword_names);
  for (Py_ssize_t i = 0; i < count; i++) {
    PyObject* name = PyTuple_GET_ITEM(b->keyword_names, i);
    PyObject* value = b->arguments[b->positional + i];
    if (!PyUnicode_Check(name)) return -1;
    Py_ssize_t slot = find_parameter(b, name);
    if (slot < 0) return -1;
    if (slot < b->total) {
      if (b->locals[slot] != NULL) return -1;
      b->locals[slot] = Py_NewRef(value);
    } else {
      if (b->extra_keywords == NULL) return -1;
      if (PyDict_SetItem(b->extra_keywords, name, value) < 0) return -1;
    }
  }
  return 0;
}

static int bind_defaults(Binding* b) {
  Py_ssize_t arguments = b->code->co_argcount;
  PyObject* defaults = b->function->func_defaults;
  if (b->positional < arguments) {
    Py_ssize_t first = arguments - (defaults ? PyTuple_GET_SIZE(defaults) : 0);
    for (Py_ssize_t i = b->positional; i < arguments; i++) {
      if (b->locals[i] == NULL && i < first) return -1;
    }
  }
  PyObject* keyword_defaults = b->function->func_kwdefaults;
  for (Py_ssize_t i = arguments; i < b->total; i++) {
    if (b->locals[i] != NULL) continue;
    if (keyword_defaults == NULL) return -1;
    PyObject* value = PyDict_GetItemWithError(keyword_defaults, PyTuple_GET_ITEM(b->code->co_localsplusnames, i));
    if (value == NULL) return -1;
  }
  // Nothing is missing: only now references are taken.
  for (Py_ssize_t i = arguments; i < b->total; i++) {
    if (b->locals[i] != NULL) continue;
    PyObject* value = PyDict_GetItemWithError(keyword_defaults, PyTuple_GET_ITEM(b->code->co_localsplusnames, i));
    b->locals[i] = Py_XNewRef(value);
  }
  if (b->positional < arguments && defaults) {
    Py_ssize_t first = arguments - PyTuple_GET_SIZE(defaults);
    for (Py_ssize_t i = b->positional > first ? b->positional : first; i < arguments; i++) {
      if (b->locals[i] == NULL) b->locals[i] = Py_NewRef(PyTuple_GET_ITEM(defaults, i - first));
    }
  }
  return 0;
}

static int bind(Binding* b) {
  int variable_keywords = b->code->co_flags & CO_VARKEYWORDS;
  if (variable_keywords) {
    b->extra_keywords = PyDict_New();
    if (b->extra_keywords == NULL) return -1;
    b->locals[b->total + ((b->code->co_flags & CO_VARARGS) != 0)] = b->extra_keywords;
  }
  if (bind_positional(b) < 0) return -1;
  if (b->keyword_names && bind_keywords(b) < 0) return -1;
  return bind_defaults(b);
}

// Releases the references of arguments that were not stolen: what *args took, and all keyword arguments.
static void finish_binding(Binding* b) {
  for (Py_ssize_t i = b->code->co_argcount; i < b->positional; i++) Py_DECREF(b->arguments[i]);
  Py_ssize_t count = b->keyword_names ? PyTuple_GET_SIZE(b->keyword_names) : 0;
  for (Py_ssize_t i = 0; i < count; i++) Py_DECREF(b->arguments[b->positional + i]);
}

// Undoes a failed binding and raises what CPython raises: by making the same call there, which fails before it runs anything.
static void fail_binding(PyThreadState* thread, Binding* b, _PyInterpreterFrame* frame) {
  PyObject* rest = (b->code->co_flags & CO_VARARGS) ? b->locals[b->total] : NULL;
  // Past the positional ones, a parameter that is set was passed by keyword: defaults come last and do not fail.
  Py_ssize_t named = b->positional < b->code->co_argcount ? b->positional : b->code->co_argcount;
  for (Py_ssize_t i = named; i < b->total; i++) Py_XDECREF(b->locals[i]);
  for (int i = 0; i < b->code->co_nlocalsplus; i++) b->locals[i] = NULL;
  Py_XDECREF(rest);
  Py_XDECREF(b->extra_keywords);
  PyObject* function = Py_NewRef(b->function);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_code);
  Py_DECREF(frame->f_funcobj);
  pop_frame(thread, frame);
  if (!PyErr_Occurred()) {
    PyObject* result = _PyFunction_Vectorcall(function, b->arguments, (size_t)b->positional, b->keyword_names);
    if (result != NULL) {
      Py_DECREF(result);
      PyErr_SetString(PyExc_SystemError, "dynrun: argument binding differs from CPython's");
    }
  }
  Py_DECREF(function);
}

DynrunFrame* dynrun_push_call(PyThreadState* thread, PyObject* function, PyObject* locals, PyObject* const* arguments,
                              Py_ssize_t positional, PyObject* keyword_names) {
  Py_ssize_t given = positional + (keyword_names ? PyTuple_GET_SIZE(keyword_names) : 0);
  _PyInterpreterFrame* frame = push_frame(thread, function, locals);
  if (frame != NULL) {
    PyFunctionObject* callee = (PyFunctionObject*)function;
    PyCodeObject* code = (PyCodeObject*)callee->func_code;
    Binding binding = {
        callee, code, frame->localsplus, arguments, positional, keyword_names, code->co_argcount + code->co_kwonlyargcount,
        NULL};
    int exact = keyword_names == NULL && positional == code->co_argcount && code->co_kwonlyargcount == 0 &&
                !(code->co_flags & (CO_VARARGS | CO_VARKEYWORDS));
    if (exact) {
      for (Py_ssize_t i = 0; i < positional; i++) frame->localsplus[i] = arguments[i];
      return frame;
    }
    if (bind(&binding) == 0) {
      finish_binding(&binding);
      return frame;
    }
    fail_binding(thread, &binding, frame);
  }
  for (Py_ssize_t i = 0; i < given; i++) Py_DECREF(arguments[i]);
  return NULL;
}

// ---- clearing frames ----

// The frame object of `frame` (new reference), made when it has none. Null without an error when there is no memory.
static PyFrameObject* frame_object(PyThreadState* thread, _PyInterpreterFrame* frame) {
  if (frame->frame_obj) return (PyFrameObject*)Py_NewRef(frame->frame_obj);
  _PyInterpreterFrame* current = thread->cframe->current_frame;
  thread->cframe->current_frame = frame;
  PyFrameObject* object = PyThreadState_GetFrame(thread);
  thread->cframe->current_frame = current;
  return object;
}

// The frame's contents move into its frame object, which outlives it.
static void move_into_object(PyThreadState* thread, PyFrameObject* object, _PyInterpreterFrame* frame) {
  size_t size = (size_t)((char*)&frame->localsplus[frame->stacktop] - (char*)frame);
  Py_INCREF(frame->f_code);
  memcpy(object->_f_frame_data, frame, size);
  frame = (_PyInterpreterFrame*)object->_f_frame_data;
  object->f_frame = frame;
  frame->owner = FRAME_OWNED_BY_FRAME_OBJECT;
  if (_PyFrame_IsIncomplete(frame)) frame->prev_instr = _PyCode_CODE(frame->f_code) + frame->f_code->_co_firsttraceable;
  _PyInterpreterFrame* previous = _PyFrame_GetFirstComplete(frame->previous);
  frame->previous = NULL;
  if (previous) object->f_back = frame_object(thread, previous);
  if (!PyObject_GC_IsTracked((PyObject*)object)) PyObject_GC_Track(object);
}

static void clear_except_code(PyThreadState* thread, _PyInterpreterFrame* frame) {
  if (frame->frame_obj) {
    PyFrameObject* object = frame->frame_obj;
    frame->frame_obj = NULL;
    if (Py_REFCNT(object) > 1) {
      move_into_object(thread, object, frame);
      Py_DECREF(object);
      return;
    }
    Py_DECREF(object);
  }
  for (int i = 0; i < frame->stacktop; i++) Py_XDECREF(frame->localsplus[i]);
  Py_XDECREF(frame->f_locals);
  Py_DECREF(frame->f_funcobj);
}

void dynrun_clear_frame(PyThreadState* thread, DynrunFrame* frame) {
  thread->c_recursion_remaining--;
  if (frame->owner == FRAME_OWNED_BY_THREAD) {
    clear_except_code(thread, frame);
    Py_DECREF(frame->f_code);
    thread->c_recursion_remaining++;
    pop_frame(thread, frame);
    return;
  }
  PyGenObject* generator = _PyFrame_GetGenerator(frame);
  generator->gi_frame_state = FRAME_CLEARED;
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = NULL;
  clear_except_code(thread, frame);
  thread->c_recursion_remaining++;
  frame->previous = NULL;
}

PyObject* dynrun_frame_object(PyThreadState* thread, DynrunFrame* frame) {
  return _PyFrame_IsIncomplete(frame) ? NULL : (PyObject*)frame_object(thread, frame);
}

void dynrun_traceback_here(PyThreadState* thread, DynrunFrame* frame) {
  if (_PyFrame_IsIncomplete(frame)) return;
  PyFrameObject* object = frame_object(thread, frame);
  if (object != NULL) {
    PyTraceBack_Here(object);
    Py_DECREF(object);
  } else if (!PyErr_Occurred()) {
    PyErr_NoMemory();  // asking for the frame object cleared the error
  }
}

int dynrun_is_incomplete(DynrunFrame* frame) {
  return _PyFrame_IsIncomplete(frame);
}

PyObject* dynrun_unique_int(PyObject* number) {
  PyLongObject* source = (PyLongObject*)number;
  Py_ssize_t digits = _PyLong_DigitCount(source);
  PyLongObject* copy = _PyLong_New(digits > 0 ? digits : 1);
  if (copy == NULL) return NULL;
  copy->long_value.lv_tag = source->long_value.lv_tag;
  memcpy(copy->long_value.ob_digit, source->long_value.ob_digit, sizeof(digit) * (size_t)(digits > 0 ? digits : 1));
  return (PyObject*)copy;
}

/* As in Objects/dictobject.c. */
typedef struct {
  PyObject_HEAD
  PyDictObject* dict;
  Py_ssize_t used, position;
  PyObject* result;
  Py_ssize_t left;
} DictIterator;

int dynrun_dict_iterator(PyObject* iterator, PyObject** dict, Py_ssize_t* given) {
  DictIterator* one = (DictIterator*)iterator;
  if (one->dict == NULL || one->used != one->dict->ma_used) return 0;
  // Where keys came and went since, as many as before are there, but not those that are still to be given.
  Py_ssize_t position = one->position, left = 0;
  while (PyDict_Next((PyObject*)one->dict, &position, NULL, NULL)) left++;
  if (left != one->left) return 0;
  *dict = (PyObject*)one->dict;
  *given = one->used - one->left;
  return 1;
}

int dynrun_place_list_iterator(PyObject* iterator, Py_ssize_t index) {
  if (Py_TYPE(iterator) != &PyListIter_Type || ((_PyListIterObject*)iterator)->it_seq == NULL) return 0;
  ((_PyListIterObject*)iterator)->it_index = index;
  return 1;
}

int dynrun_resets(PyObject* token, PyObject* variable) {
  if (!PyContextToken_CheckExact(token)) return 0;
  PyContextToken* one = (PyContextToken*)token;
  return !one->tok_used && (PyObject*)one->tok_var == variable && (PyObject*)one->tok_ctx == PyThreadState_Get()->context;
}

// ---- recursion ----

int dynrun_enter_python(PyThreadState* thread) {
  if (thread->py_recursion_remaining-- > 0) return 0;
  if (thread->recursion_headroom) {
    if (thread->py_recursion_remaining < -50) Py_FatalError("Cannot recover from Python stack overflow.");
    return 0;
  }
  if (thread->py_recursion_remaining > 0) return 0;
  thread->recursion_headroom++;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  thread->recursion_headroom--;
  return -1;
}

int dynrun_enter_evaluator(PyThreadState* thread) {
  thread->c_recursion_remaining -= kEvaluatorUnits - 1;
  if (thread->c_recursion_remaining-- <= 0 && _Py_CheckRecursiveCall(thread, "")) {
    thread->c_recursion_remaining += kEvaluatorUnits - 1;
    return -1;
  }
  return 0;
}

void dynrun_leave_evaluator(PyThreadState* thread) {
  thread->c_recursion_remaining += kEvaluatorUnits;
}

static _Thread_local char* stack_low = NULL;

void dynrun_set_stack_low(void* low) {
  stack_low = low;
}

static char* find_stack_low(void) {
  pthread_attr_t attributes;
  void* low = NULL;
  size_t size = 0;
  size_t guard = 0;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return (char*)1;
  pthread_attr_getstack(&attributes, &low, &size);
  pthread_attr_getguardsize(&attributes, &guard);
  pthread_attr_destroy(&attributes);
  char* here = (char*)__builtin_frame_address(0);
  // On a stack that somebody else switched to, nothing is known.
  if (here < (char*)low || here > (char*)low + size) return (char*)1;
  return (char*)low + guard;
}

int dynrun_check_stack(void) {
  if (stack_low == NULL) stack_low = find_stack_low();
  char* here = (char*)__builtin_frame_address(0);
  if (here - stack_low > kStackReserve || here < stack_low) return 0;
  PyErr_SetString(PyExc_RecursionError, "maximum recursion depth exceeded");
  return -1;
}

PyObject* dynrun_evaluate(PyThreadState* thread, DynrunFrame* frame, int throwing, int began) {
  if (dynrun_check_stack() < 0) {
    if (began) thread->py_recursion_remaining++;
    dynrun_clear_frame(thread, frame);
    return NULL;
  }
  if (began) thread->py_recursion_remaining++;
  thread->c_recursion_remaining += kEvaluatorUnits;
  PyObject* result = _PyEval_EvalFrameDefault(thread, frame, throwing);
  thread->c_recursion_remaining -= kEvaluatorUnits;
  return result;
}

// ---- what interrupts the evaluator ----

const volatile int* dynrun_eval_breaker(PyThreadState* thread) {
  return (const volatile int*)&thread->interp->ceval.eval_breaker._value;
}

// A function of one RESUME whose frame is never complete, hence invisible: evaluating it makes CPython handle what is pending
// as at any RESUME (its own handler is not exported).
static PyObject* pending_function(void) {
  static PyObject* function = NULL;
  if (function != NULL) return function;
  PyObject* code = Py_CompileString("None", "<dynrun>", Py_eval_input);
  PyObject* globals = PyDict_New();
  if (code != NULL && globals != NULL) {
    ((PyCodeObject*)code)->_co_firsttraceable = 1 << 20;
    function = PyFunction_New(code, globals);
  }
  Py_XDECREF(code);
  Py_XDECREF(globals);
  return function;
}

// Evaluates a pushed frame that nobody can see, uncounted.
static PyObject* evaluate_unseen(PyThreadState* thread, _PyInterpreterFrame* frame) {
  thread->py_recursion_remaining++;
  thread->c_recursion_remaining += kEvaluatorUnits;
  PyObject* result = _PyEval_EvalFrameDefault(thread, frame, 0);
  thread->c_recursion_remaining -= kEvaluatorUnits;
  thread->py_recursion_remaining--;
  return result;
}

int dynrun_is_collecting(PyThreadState* thread) { return thread->interp->gc.collecting; }

int dynrun_handle_pending(PyThreadState* thread) {
  PyObject* function = pending_function();
  if (function == NULL) return -1;
  _PyInterpreterFrame* frame = push_frame(thread, function, NULL);
  if (frame == NULL) return -1;
  // CPython would try to instrument code that has nothing to trace, for ever.
  frame->f_code->_co_instrumentation_version = thread->interp->monitoring_version;
  PyObject* result = evaluate_unseen(thread, frame);
  Py_XDECREF(result);
  return result == NULL ? -1 : 0;
}

int dynrun_signal_waits(void) { return _Py_atomic_load_relaxed(&_PyRuntime.signals.is_tripped); }

unsigned long dynrun_hold_signals(void) {
  if (PyThread_get_thread_ident() != _PyRuntime.main_thread) return 0;
  unsigned long main_thread = _PyRuntime.main_thread;
  _PyRuntime.main_thread = 0;
  return main_thread;
}

void dynrun_release_signals(unsigned long held) {
  if (held == 0) return;
  _PyRuntime.main_thread = held;
  // The flag is not raised for a signal that no thread can handle.
  if (dynrun_signal_waits()) _Py_atomic_store_relaxed(&_PyInterpreterState_Main()->ceval.eval_breaker, 1);
}

// ---- intrinsics that are not exported ----

// A function of `count` parameters whose code is the one instruction, without a RESUME: its frames are never complete.
static PyObject* instruction_function(int count, int opcode, int argument) {
  const uint8_t units[] = {LOAD_FAST, 0, LOAD_FAST, (uint8_t)(count - 1), (uint8_t)opcode, (uint8_t)argument, RETURN_VALUE, 0};
  size_t skipped = count == 1 ? 2 : 0;
  PyObject* bytes = PyBytes_FromStringAndSize((const char*)units + skipped, (Py_ssize_t)(sizeof units - skipped));
  PyObject* name = PyUnicode_FromString("<dynrun>");
  PyObject* names = count == 1 ? Py_BuildValue("(s)", "a") : Py_BuildValue("(ss)", "a", "b");
  PyObject* nothing = PyTuple_New(0);
  PyObject* table = PyBytes_FromStringAndSize(NULL, 0);
  PyObject* globals = PyDict_New();
  PyObject* function = NULL;
  if (bytes && name && names && nothing && table && globals) {
    PyObject* code =
        (PyObject*)PyUnstable_Code_New(count, 0, count, count + 1, CO_OPTIMIZED | CO_NEWLOCALS, bytes, nothing, nothing, names,
                                       nothing, nothing, name, name, name, 1, table, table);
    if (code) function = PyFunction_New(code, globals);
    Py_XDECREF(code);
  }
  Py_XDECREF(bytes);
  Py_XDECREF(name);
  Py_XDECREF(names);
  Py_XDECREF(nothing);
  Py_XDECREF(table);
  Py_XDECREF(globals);
  return function;
}

PyObject* dynrun_call_intrinsic(PyThreadState* thread, int number, PyObject* first, PyObject* second) {
  enum { kIntrinsics = 16 };
  static PyObject* functions[2][kIntrinsics];
  int count = second ? 2 : 1;
  if (number < 0 || number >= kIntrinsics) {
    PyErr_SetString(PyExc_SystemError, "unknown intrinsic");
    return NULL;
  }
  PyObject** function = &functions[count - 1][number];
  if (*function == NULL) *function = instruction_function(count, count == 1 ? CALL_INTRINSIC_1 : CALL_INTRINSIC_2, number);
  if (*function == NULL) return NULL;
  _PyInterpreterFrame* frame = push_frame(thread, *function, NULL);
  if (frame == NULL) return NULL;
  frame->localsplus[0] = Py_NewRef(first);
  if (second) frame->localsplus[1] = Py_NewRef(second);
  return evaluate_unseen(thread, frame);
}

// ---- generators ----

PyObject* dynrun_generator_of(DynrunFrame* frame) {
  return (PyObject*)_PyFrame_GetGenerator(frame);
}

void dynrun_suspend_generator(PyThreadState* thread, DynrunFrame* frame) {
  PyGenObject* generator = _PyFrame_GetGenerator(frame);
  generator->gi_frame_state = FRAME_SUSPENDED;
  thread->exc_info = generator->gi_exc_state.previous_item;
  generator->gi_exc_state.previous_item = NULL;
}

DynrunFrame* dynrun_resumable_frame(PyObject* object, PyObject* sent) {
  PyGenObject* generator = (PyGenObject*)object;
  if (generator->gi_frame_state >= FRAME_EXECUTING) return NULL;
  if (generator->gi_frame_state == FRAME_CREATED && sent != Py_None) return NULL;
  return (_PyInterpreterFrame*)generator->gi_iframe;
}

void dynrun_resume_generator(PyThreadState* thread, PyObject* object, PyObject* sent) {
  PyGenObject* generator = (PyGenObject*)object;
  _PyFrame_StackPush((_PyInterpreterFrame*)generator->gi_iframe, sent);
  generator->gi_frame_state = FRAME_EXECUTING;
  generator->gi_exc_state.previous_item = thread->exc_info;
  thread->exc_info = &generator->gi_exc_state;
}

int dynrun_is_suspended(PyObject* generator) {
  return ((PyGenObject*)generator)->gi_frame_state == FRAME_SUSPENDED;
}

DynrunFrame* dynrun_generator_frame(PyObject* object) {
  PyGenObject* generator = (PyGenObject*)object;
  return generator->gi_frame_state >= FRAME_COMPLETED ? NULL : (_PyInterpreterFrame*)generator->gi_iframe;
}

int dynrun_is_running(PyObject* generator) {
  return ((PyGenObject*)generator)->gi_frame_state == FRAME_EXECUTING;
}

int dynrun_generator_handles(PyObject* generator) {
  PyObject* handled = ((PyGenObject*)generator)->gi_exc_state.exc_value;
  return handled != NULL && handled != Py_None;
}

// As CPython's make_gen and RETURN_GENERATOR do.
PyObject* dynrun_new_generator(PyObject* function) {
  PyFunctionObject* callee = (PyFunctionObject*)function;
  PyCodeObject* code = (PyCodeObject*)callee->func_code;
  PyGenObject* generator = PyObject_GC_NewVar(PyGenObject, &PyGen_Type, _PyFrame_NumSlotsForCodeObject(code));
  if (generator == NULL) return NULL;
  generator->gi_weakreflist = NULL;
  generator->gi_name = Py_NewRef(callee->func_name);
  generator->gi_qualname = Py_NewRef(callee->func_qualname);
  generator->gi_exc_state.exc_value = NULL;
  generator->gi_exc_state.previous_item = NULL;
  generator->gi_origin_or_finalizer = NULL;
  generator->gi_hooks_inited = generator->gi_closed = generator->gi_running_async = 0;
  _PyInterpreterFrame* frame = (_PyInterpreterFrame*)generator->gi_iframe;
  _PyFrame_Initialize(frame, (PyFunctionObject*)Py_NewRef(function), NULL, (PyCodeObject*)Py_NewRef(code), 0);
  frame->previous = NULL;
  frame->owner = FRAME_OWNED_BY_GENERATOR;
  frame->prev_instr = _PyCode_CODE(code) + code->_co_firsttraceable;
  generator->gi_frame_state = FRAME_CREATED;
  PyObject_GC_Track((PyObject*)generator);
  return (PyObject*)generator;
}

void dynrun_place_generator(PyObject* object, int last, int suspended, PyObject* const* slots, int count) {
  PyGenObject* generator = (PyGenObject*)object;
  _PyInterpreterFrame* frame = (_PyInterpreterFrame*)generator->gi_iframe;
  for (int i = 0; i < count; i++) frame->localsplus[i] = Py_XNewRef(slots[i]);
  frame->stacktop = count;
  frame->prev_instr = _PyCode_CODE(frame->f_code) + last;
  generator->gi_frame_state = suspended ? FRAME_SUSPENDED : FRAME_CREATED;
}

DynrunFrame* dynrun_start_generator(PyThreadState* thread, PyObject* object) {
  PyGenObject* generator = (PyGenObject*)object;
  generator->gi_frame_state = FRAME_EXECUTING;
  generator->gi_exc_state.previous_item = thread->exc_info;
  thread->exc_info = &generator->gi_exc_state;
  return (_PyInterpreterFrame*)generator->gi_iframe;
}

PyObject* dynrun_waiting_for(PyObject* object) {
  PyGenObject* generator = (PyGenObject*)object;
  if (generator->gi_frame_state >= FRAME_CLEARED || generator->gi_frame_state == FRAME_CREATED) return NULL;
  _PyInterpreterFrame* frame = (_PyInterpreterFrame*)generator->gi_iframe;
  _Py_CODEUNIT next = frame->prev_instr[1];
  if (next.op.code != RESUME && next.op.code != INSTRUMENTED_RESUME) return NULL;
  if (next.op.arg < 2 || frame->stacktop < 1) return NULL;  // below 2: not in a `yield from` or `await`
  return Py_NewRef(_PyFrame_StackPeek(frame));
}

PyObject* dynrun_awaitable_iterator(PyObject* object) {
  if (PyCoro_CheckExact(object)) return Py_NewRef(object);
  if (PyGen_CheckExact(object)) {
    PyCodeObject* code = ((_PyInterpreterFrame*)((PyGenObject*)object)->gi_iframe)->f_code;
    if (code->co_flags & CO_ITERABLE_COROUTINE) return Py_NewRef(object);
  }
  PyTypeObject* type = Py_TYPE(object);
  unaryfunc getter = type->tp_as_async ? type->tp_as_async->am_await : NULL;
  if (getter == NULL) {
    PyErr_Format(PyExc_TypeError, "object %.100s can't be used in 'await' expression", type->tp_name);
    return NULL;
  }
  PyObject* iterator = getter(object);
  if (iterator == NULL) return NULL;
  int is_coroutine = PyCoro_CheckExact(iterator);
  if (!is_coroutine && PyGen_CheckExact(iterator)) {
    PyCodeObject* code = ((_PyInterpreterFrame*)((PyGenObject*)iterator)->gi_iframe)->f_code;
    is_coroutine = code->co_flags & CO_ITERABLE_COROUTINE;
  }
  if (is_coroutine) {
    PyErr_SetString(PyExc_TypeError, "__await__() returned a coroutine");
    Py_CLEAR(iterator);
  } else if (!PyIter_Check(iterator)) {
    PyErr_Format(PyExc_TypeError, "__await__() returned non-iterator of type '%.100s'", Py_TYPE(iterator)->tp_name);
    Py_CLEAR(iterator);
  }
  return iterator;
}

// ---- the hook ----

void dynrun_set_hook(DynrunHook hook) {
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), hook ? hook : _PyEval_EvalFrameDefault);
}

int dynrun_is_only_thread(void) { return PyThreadState_Next(PyInterpreterState_ThreadHead(PyInterpreterState_Get())) == NULL; }

PyObject* dynrun_import_function(PyThreadState* thread) {
  return thread->interp->imports.import_func;
}

// One frame seen by the hook, compared with what is known of the call.
static const char* probe_failure = NULL;
static int probe_seen = 0;

static PyObject* probe_hook(PyThreadState* thread, _PyInterpreterFrame* frame, int throwing) {
  PyFunctionObject* function = (PyFunctionObject*)frame->f_funcobj;
  if (!probe_seen) {
    probe_seen = 1;
    PyCodeObject* code = frame->f_code;
    if (!PyFunction_Check(function) || (PyObject*)code != function->func_code || frame->f_globals != function->func_globals ||
        frame->f_builtins != function->func_builtins) {
      probe_failure = "frames are laid out differently";
    } else if (frame->stacktop != code->co_nlocalsplus || frame->prev_instr != _PyCode_CODE(code) - 1 ||
               frame->owner != FRAME_OWNED_BY_THREAD || frame->localsplus[0] != Py_None) {
      probe_failure = "frames start differently";
    } else if ((PyObject**)frame + code->co_framesize != thread->datastack_top) {
      probe_failure = "the data stack grows differently";
    } else if (_PyCode_CODE(code)[0].op.code != RESUME) {
      probe_failure = "opcodes are numbered differently";
    }
  }
  return _PyEval_EvalFrameDefault(thread, frame, throwing);
}

const char* dynrun_check_internals(void) {
  if (Py_Version >> 16 != PY_VERSION_HEX >> 16) return "this is not CPython 3.12";
  if (PyCode_Type.tp_basicsize != (Py_ssize_t)offsetof(PyCodeObject, co_code_adaptive)) {
    return "code objects are laid out differently";
  }
  if (PyGen_Type.tp_basicsize != (Py_ssize_t)(offsetof(PyGenObject, gi_iframe) + offsetof(_PyInterpreterFrame, localsplus))) {
    return "generators are laid out differently";
  }
  if (PyDictIterValue_Type.tp_basicsize != (Py_ssize_t)sizeof(DictIterator)) return "iterators over dicts are laid out differently";
  PyObject* globals = PyDict_New();
  PyObject* function = NULL;
  if (globals != NULL) {
    PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins());
    function = PyRun_String("lambda x: x", Py_eval_input, globals, globals);
  }
  if (function == NULL) {
    PyErr_Clear();
    Py_XDECREF(globals);
    return "a probe function cannot be compiled";
  }
  probe_seen = 0;
  probe_failure = NULL;
  _PyFrameEvalFunction before = _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), probe_hook);
  PyObject* result = PyObject_CallOneArg(function, Py_None);
  _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), before);
  if (result == NULL) PyErr_Clear();
  Py_XDECREF(result);
  Py_DECREF(function);
  Py_DECREF(globals);
  if (!probe_seen) return "the frame hook is not called";
  return probe_failure;
}
