#include "vm/machine.h"

#include "vm/interpreter.h"

namespace dynrun::vm {

Activation* Machine::push_call(PyObject* function, PyObject* const* arguments, Py_ssize_t positional, PyObject* keyword_names,
                               Continuation continuation, PyObject* held) {
  auto& interpreter = static_cast<Interpreter&>(*this);
  auto* callee = reinterpret_cast<PyFunctionObject*>(function);
  int flags = reinterpret_cast<PyCodeObject*>(callee->func_code)->co_flags;
  PyObject* locals = flags & CO_OPTIMIZED ? nullptr : Py_NewRef(callee->func_globals);
  python::Frame* frame = dynrun_push_call(interpreter.thread, function, locals, arguments, positional, keyword_names);
  if (!frame) {
    Py_XDECREF(held);
    return nullptr;
  }
  Activation* activation = interpreter.start(frame, continuation, held);
  if (activation && observer) observer->entered(*this, *activation);
  return activation;
}

Activation* Machine::push_frame(PyObject* function, Continuation continuation, PyObject* held) {
  auto& interpreter = static_cast<Interpreter&>(*this);
  python::Frame* frame = dynrun_push_frame(interpreter.thread, function);
  if (!frame) {
    Py_XDECREF(held);
    return nullptr;
  }
  return interpreter.start(frame, continuation, held);
}

Activation* Machine::push_generator(PyObject* generator, Resumption by) {
  auto& interpreter = static_cast<Interpreter&>(*this);
  Activation* activation = interpreter.start(dynrun_start_generator(interpreter.thread, generator), Continuation::kPushResult, nullptr);
  if (!activation) return nullptr;
  activation->resumption = by;
  activation->followed = true;
  return activation;
}

void Machine::drop_top() {
  auto& interpreter = static_cast<Interpreter&>(*this);
  python::Frame* frame = top->frame;
  Continuation continuation;
  PyObject* held;
  dynrun_leave_python(interpreter.thread);
  interpreter.unlink_top(&continuation, &held);
  dynrun_clear_frame(interpreter.thread, frame);
  Py_XDECREF(held);
}

}  // namespace dynrun::vm
