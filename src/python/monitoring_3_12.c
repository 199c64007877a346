// compat.h for CPython 3.12: tracing, profiling, monitoring.

#define Py_BUILD_CORE 1
#include "compat.h"

#include <Python.h>

#include "internal/pycore_interp.h"
#include "internal/pycore_pystate.h"

const volatile uint64_t* dynrun_monitoring_version(PyThreadState* thread) {
  return &thread->interp->monitoring_version;
}

static int any_tool(const uint8_t* tools, int count) {
  for (int i = 0; i < count; i++) {
    if (tools[i] & ~(1 << DYNRUN_MONITORING_TOOL)) return 1;
  }
  return 0;
}

static int monitored_codes = 0;  // code objects with events of their own

static int has_local_events(PyCodeObject* code) {
  return code->_co_monitoring != NULL && any_tool(code->_co_monitoring->local_monitors.tools, _PY_MONITORING_LOCAL_EVENTS);
}

int dynrun_is_monitored(PyThreadState* thread, PyCodeObject* code) {
  if (thread->c_tracefunc || thread->c_profilefunc || monitored_codes > 0) return 1;
  PyInterpreterState* interpreter = thread->interp;
  static PyInterpreterState* known_interpreter = NULL;
  static uint64_t known_version = 0;
  static int known = 0;
  if (interpreter != known_interpreter || interpreter->monitoring_version != known_version) {
    known_interpreter = interpreter;
    known_version = interpreter->monitoring_version;
    known = any_tool(interpreter->monitors.tools, _PY_MONITORING_UNGROUPED_EVENTS);
  }
  return known || has_local_events(code);
}

static _PyCFunctionFast set_local_events = NULL;

// The version of all monitoring moves too: frames look at that alone, and run code of other frames.
static PyObject* count_local_events(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  PyCodeObject* code = count == 3 && PyCode_Check(arguments[1]) ? (PyCodeObject*)arguments[1] : NULL;
  const int before = code != NULL && has_local_events(code);
  PyObject* result = set_local_events(module, arguments, count);
  const int change = code != NULL ? has_local_events(code) - before : 0;
  monitored_codes += change;
  if (change != 0) PyInterpreterState_Get()->monitoring_version++;
  return result;
}

static int code_event(PyCodeEvent event, PyCodeObject* code) {
  if (event == PY_CODE_EVENT_DESTROY && has_local_events(code)) {
    monitored_codes--;
    PyInterpreterState_Get()->monitoring_version++;
  }
  return 0;
}

// For good: the table of the module's functions stays patched.
void dynrun_watch_local_monitoring(void) {
  PyObject* monitoring = PySys_GetObject("monitoring");
  PyObject* function = monitoring ? PyObject_GetAttrString(monitoring, "set_local_events") : NULL;
  if (function != NULL && PyCFunction_CheckExact(function) && set_local_events == NULL) {
    PyMethodDef* method = ((PyCFunctionObject*)function)->m_ml;
    if (method->ml_flags == METH_FASTCALL) {
      set_local_events = (_PyCFunctionFast)(void (*)(void))method->ml_meth;
      method->ml_meth = (PyCFunction)(void (*)(void))&count_local_events;
      PyCode_AddWatcher(code_event);
    }
  }
  Py_XDECREF(function);
  PyErr_Clear();
}

void dynrun_trace_raised(PyThreadState* thread) {
  if (thread->c_tracefunc == NULL || thread->tracing) return;
  PyObject* raised = PyErr_GetRaisedException();
  PyFrameObject* frame = PyThreadState_GetFrame(thread);
  PyObject* traceback = PyException_GetTraceback(raised);
  PyObject* argument = PyTuple_Pack(3, (PyObject*)Py_TYPE(raised), raised, traceback ? traceback : Py_None);
  Py_XDECREF(traceback);
  int failed = argument == NULL;
  if (!failed && frame != NULL) {
    PyThreadState_EnterTracing(thread);
    failed = thread->c_tracefunc(thread->c_traceobj, frame, PyTrace_EXCEPTION, argument) != 0;
    PyThreadState_LeaveTracing(thread);
  }
  Py_XDECREF(argument);
  Py_XDECREF(frame);
  if (failed && PyErr_Occurred()) {
    Py_DECREF(raised);  // the trace function's error takes its place
  } else {
    PyErr_SetRaisedException(raised);
  }
}
