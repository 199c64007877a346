// Calls, function objects, intrinsics.

#include "vm/ops.h"

#include <vector>

namespace dynrun::vm {
namespace {

// Calls `callable` (stolen) with the arguments that stand from `arguments` to the stack top, in a new activation.
Status push_python_call(Interpreter& vm, Activation& top, PyObject* callable, PyObject** arguments, PyObject** bottom,
                        Py_ssize_t positional, PyObject* keyword_names) {
  top.stack_pointer = bottom;
  Activation* called = vm.push_call(callable, arguments, positional, keyword_names, Continuation::kPushResult);
  Py_DECREF(callable);
  return called ? vm.began_call() : Status::kError;
}

// Calls a function of C's by the convention that CPython's specialised CALL uses for it, with a recursion check where that has
// one. False: it is none of those.
bool call_directly(PyThreadState* thread, PyObject* callable, PyObject** arguments, Py_ssize_t total, PyObject* names,
                   PyObject** result) {
  constexpr int kWithKeywords = METH_FASTCALL | METH_KEYWORDS;
  PyObject* self;
  PyMethodDef* method;
  if (PyCFunction_CheckExact(callable)) {
    self = PyCFunction_GET_SELF(callable);
    method = reinterpret_cast<PyCFunctionObject*>(callable)->m_ml;
  } else if (Py_IS_TYPE(callable, &PyMethodDescr_Type) && total > 0) {
    auto* descriptor = reinterpret_cast<PyMethodDescrObject*>(callable);
    self = *arguments++;
    --total;
    method = descriptor->d_method;
    if (!Py_IS_TYPE(self, descriptor->d_common.d_type)) return false;
  } else {
    return false;
  }
  auto function = reinterpret_cast<void (*)()>(method->ml_meth);
  bool single = !names && ((method->ml_flags == METH_O && total == 1) || (method->ml_flags == METH_NOARGS && total == 0));
  if (single) {
    if (thread->c_recursion_remaining <= 0) return false;
    --thread->c_recursion_remaining;
    *result = method->ml_meth(self, total ? arguments[0] : nullptr);
    ++thread->c_recursion_remaining;
    return true;
  }
  if (method->ml_flags == kWithKeywords) {
    Py_ssize_t positional = total - (names ? PyTuple_GET_SIZE(names) : 0);
    if (positional < 0) return false;
    *result = reinterpret_cast<_PyCFunctionFastWithKeywords>(function)(self, arguments, positional, names);
    return true;
  }
  if (method->ml_flags == METH_FASTCALL && !names) {
    *result = reinterpret_cast<_PyCFunctionFast>(function)(self, arguments, total);
    return true;
  }
  return false;
}

bool check_iterable(PyObject* function, PyObject* arguments) {
  if (Py_TYPE(arguments)->tp_iter || PySequence_Check(arguments)) return true;
  // This runs with another error set, or with none.
  PyErr_Clear();
  python::Ref name = python::Ref::steal(_PyObject_FunctionStr(function));
  if (name) {
    PyErr_Format(PyExc_TypeError, "%U argument after * must be an iterable, not %.200s", name.get(),
                 Py_TYPE(arguments)->tp_name);
  }
  return false;
}

// Lays out the arguments of `f(*positional, **keywords)` as a call takes them: new references; the names as a tuple.
bool spread(PyObject* self, PyObject* positional, PyObject* keywords, std::vector<PyObject*>* arguments, python::Ref* names) {
  Py_ssize_t count = PyTuple_GET_SIZE(positional);
  Py_ssize_t named = keywords ? PyDict_GET_SIZE(keywords) : 0;
  arguments->reserve(static_cast<std::size_t>(count + named + 1));
  if (named) {
    *names = python::Ref::steal(PyTuple_New(named));
    if (!*names) return false;
  }
  Py_ssize_t position = 0, index = 0;
  PyObject *key, *value;
  if (self) arguments->push_back(Py_NewRef(self));
  for (Py_ssize_t i = 0; i < count; ++i) arguments->push_back(Py_NewRef(PyTuple_GET_ITEM(positional, i)));
  bool strings = true;
  while (named && PyDict_Next(keywords, &position, &key, &value)) {
    strings = strings && PyUnicode_Check(key);
    PyTuple_SET_ITEM(names->get(), index++, Py_NewRef(key));
    arguments->push_back(Py_NewRef(value));
  }
  if (strings) return true;
  PyErr_SetString(PyExc_TypeError, "keywords must be strings");
  for (PyObject* argument : *arguments) Py_DECREF(argument);
  return false;
}

}  // namespace

DYNRUN_OP(Call) {
  // The stack: [method, self, arguments...] or [null, callable, arguments...].
  PyObject** bottom = top.stack_pointer - instruction.argument - 2;
  PyObject** arguments = bottom + 2;
  Py_ssize_t total = instruction.argument;
  PyObject* callable = bottom[1];
  if (bottom[0]) {
    callable = bottom[0];
    --arguments;
    ++total;
  } else if (PyMethod_Check(callable)) {
    PyObject* method = callable;
    callable = bottom[0] = Py_NewRef(PyMethod_GET_FUNCTION(method));
    bottom[1] = Py_NewRef(PyMethod_GET_SELF(method));
    Py_DECREF(method);
    --arguments;
    ++total;
  }
  PyObject* names = instruction.keyword_names >= 0 ? constant_at(top, instruction.keyword_names) : nullptr;
  Py_ssize_t positional = total - (names ? PyTuple_GET_SIZE(names) : 0);
  if (Machine::is_inlinable(callable)) {
    return push_python_call(vm, top, callable, arguments, bottom, positional, names);
  }
  PyObject* result;
  if (!call_directly(vm.thread, callable, arguments, total, names, &result)) {
    result =
        PyObject_Vectorcall(callable, arguments, static_cast<std::size_t>(positional) | PY_VECTORCALL_ARGUMENTS_OFFSET, names);
  }
  Py_DECREF(callable);
  for (Py_ssize_t i = 0; i < total; ++i) Py_DECREF(arguments[i]);
  top.stack_pointer = bottom;
  if (!result) return Status::kError;
  top.push(result);
  return vm.after_call();
}

namespace {

/// f(*iterable) under an observer's eyes: the arguments are made, which may run Python code, and the instruction begins again.
Status make_arguments(Activation& top, PyObject*& iterable) {
  if (!check_iterable((&iterable)[-1], iterable)) return Status::kError;
  PyObject* tuple = PySequence_Tuple(iterable);
  if (!tuple) return Status::kError;
  python::Ref spent = python::Ref::steal(std::exchange(iterable, tuple));
  --top.pc;
  return Status::kNext;
}

}  // namespace

DYNRUN_OP(CallFunctionEx) {
  PyObject*& iterable = top.stack_pointer[instruction.argument & 1 ? -2 : -1];
  if (vm.observer && !PyTuple_CheckExact(iterable) && !PyList_CheckExact(iterable)) return make_arguments(top, iterable);
  python::Ref keywords = python::Ref::steal(instruction.argument & 1 ? top.pop() : nullptr);
  python::Ref positional = python::Ref::steal(top.pop());
  python::Ref function = python::Ref::steal(top.pop());
  top.pop();  // always null
  if (!PyTuple_CheckExact(positional.get())) {
    if (!check_iterable(function.get(), positional.get())) return Status::kError;
    python::Ref tuple = python::Ref::steal(PySequence_Tuple(positional.get()));
    if (!tuple) return Status::kError;
    positional = tuple;
  }
  bool is_method = PyMethod_Check(function.get());
  PyObject* target = is_method ? PyMethod_GET_FUNCTION(function.get()) : function.get();
  if (Machine::is_inlinable(target)) {
    PyObject* self = is_method ? PyMethod_GET_SELF(function.get()) : nullptr;
    std::vector<PyObject*> arguments;
    python::Ref names;
    if (!spread(self, positional.get(), keywords.get(), &arguments, &names)) return Status::kError;
    Py_ssize_t count = PyTuple_GET_SIZE(positional.get()) + is_method;
    Activation* called = vm.push_call(target, arguments.data(), count, names.get(), Continuation::kPushResult);
    return called ? vm.began_call() : Status::kError;
  }
  PyObject* result = PyObject_Call(function.get(), positional.get(), keywords.get());
  if (!result) return Status::kError;
  top.push(result);
  return vm.after_call();
}

DYNRUN_OP(MakeFunction) {
  python::Ref code = python::Ref::steal(top.pop());
  PyObject* object = PyFunction_New(code.get(), top.frame->globals);
  if (!object) return Status::kError;
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  if (instruction.argument & 8) function->func_closure = top.pop();
  if (instruction.argument & 4) function->func_annotations = top.pop();
  if (instruction.argument & 2) function->func_kwdefaults = top.pop();
  if (instruction.argument & 1) function->func_defaults = top.pop();
  function->func_version = reinterpret_cast<PyCodeObject*>(code.get())->co_version;
  top.push(object);
  return Status::kNext;
}

// ---- intrinsics ----

namespace {

// Numbers of pycore_intrinsics.h.
enum Intrinsic1 { kPrint = 1, kImportStar, kStopIterationError, kAsyncGenWrap, kUnaryPositive, kListToTuple };
enum Intrinsic2 { kPrepReraiseStar = 1 };

PyObject* print_expression(PyObject* value) {
  PyObject* hook = PySys_GetObject("displayhook");
  if (!hook) {
    PyErr_SetString(PyExc_RuntimeError, "lost sys.displayhook");
    return nullptr;
  }
  return PyObject_CallOneArg(hook, value);
}

// A StopIteration that leaves a generator becomes a RuntimeError (PEP 479).
PyObject* stop_iteration_error(int flags, PyObject* raised) {
  const char* message = nullptr;
  if (PyErr_GivenExceptionMatches(raised, PyExc_StopIteration)) {
    message = flags & CO_ASYNC_GENERATOR ? "async generator raised StopIteration"
              : flags & CO_COROUTINE     ? "coroutine raised StopIteration"
                                         : "generator raised StopIteration";
  } else if ((flags & CO_ASYNC_GENERATOR) && PyErr_GivenExceptionMatches(raised, PyExc_StopAsyncIteration)) {
    message = "async generator raised StopAsyncIteration";
  }
  if (!message) return Py_NewRef(raised);
  python::Ref text = python::Ref::steal(PyUnicode_FromString(message));
  if (!text) return nullptr;
  PyObject* error = PyObject_CallOneArg(PyExc_RuntimeError, text.get());
  if (!error) return nullptr;
  PyException_SetCause(error, Py_NewRef(raised));
  PyException_SetContext(error, Py_NewRef(raised));
  return error;
}

}  // namespace

PyObject* import_star(python::Frame* frame, PyObject* module);

DYNRUN_OP(CallIntrinsic1) {
  python::Ref value = python::Ref::steal(top.pop());
  switch (instruction.argument) {
    case kPrint:
      return push_or_error(top, print_expression(value.get()));
    case kImportStar:
      return push_or_error(top, import_star(top.frame, value.get()));
    case kStopIterationError:
      return push_or_error(top, stop_iteration_error(top.code->object->co_flags, value.get()));
    case kUnaryPositive:
      return push_or_error(top, PyNumber_Positive(value.get()));
    case kListToTuple:
      return push_or_error(top, PyList_AsTuple(value.get()));
    default:  // those that CPython keeps to itself
      return push_or_error(top, dynrun_call_intrinsic(vm.thread, instruction.argument, value.get(), nullptr));
  }
}

DYNRUN_OP(CallIntrinsic2) {
  python::Ref exceptions = python::Ref::steal(top.pop());
  python::Ref original = python::Ref::steal(top.pop());
  if (instruction.argument != kPrepReraiseStar) {
    return push_or_error(top, dynrun_call_intrinsic(vm.thread, instruction.argument, original.get(), exceptions.get()));
  }
  return push_or_error(top, PyUnstable_Exc_PrepReraiseStar(original.get(), exceptions.get()));
}

}  // namespace dynrun::vm
