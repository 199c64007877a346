#include "engine/module.h"

#include "engine/engine.h"
#include "python/reference.h"
#include "trace/callables.h"
#include "trace/operator_recorder.h"

namespace dynrun::engine {

using python::Ref;

namespace {

PyObject* none() { return Py_NewRef(Py_None); }

PyObject* mark(PyObject*, PyObject* arguments) {
  PyObject *object = nullptr, *dynamic = nullptr;
  if (!PyArg_ParseTuple(arguments, "OO", &object, &dynamic)) return nullptr;
  engine()->mark(object, dynamic == Py_None ? engine()->options().dynamic : dynamic == Py_True ? kDynrunDynamicOn : kDynrunDynamicOff);
  return none();
}

PyObject* disable_here(PyObject*, PyObject* on) {
  Engine::disabled_depth() += PyObject_IsTrue(on) ? 1 : -1;
  return none();
}

PyObject* stats_text(PyObject*, PyObject*) {
  std::string text = report::to_json(engine()->report());
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PyObject* reset_stats(PyObject*, PyObject*) {
  engine()->reset_report();
  return none();
}

PyObject* reset(PyObject*, PyObject*) {
  engine()->forget_segments();
  return none();
}

PyObject* call_class(PyObject*, PyObject* callable) { return PyUnicode_FromString(trace::class_name(trace::classify(callable).call_class)); }

PyObject* operator_count(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(trace::operator_count().load()); }

PyMethodDef methods[] = {{"_mark", mark, METH_VARARGS, nullptr},
                         {"_disable", disable_here, METH_O, nullptr},
                         {"_stats", stats_text, METH_NOARGS, nullptr},
                         {"_call_class", call_class, METH_O, "The class of a C callable or of a tensor's attribute: see trace/callables.h."},
                         {"_operator_count", operator_count, METH_NOARGS, "Top-level operators on the threads that count, since the start."},
                         {"reset_stats", reset_stats, METH_NOARGS, "reset_stats()\n\nSets every number of stats() to zero."},
                         {"reset", reset, METH_NOARGS, "reset()\n\nForgets every segment and how hot each function is."},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dynrun", "dynrun: PyTorch scripts, faster. See `help(dynrun.compile)`.", -1, methods,
                          nullptr, nullptr, nullptr, nullptr};

// What is easier said in Python: decorators, context managers, dicts.
constexpr char kSource[] = R"py(
import functools as _functools
import json as _json

def compile(fn=None, *, dynamic=None, **options):
    """compile(fn_or_module, *, dynamic=None) -> fn_or_module

    Records `fn_or_module` at its first call, and compiles it at once. Also as a decorator. Without it dynrun does the same
    for any function that is called a second time with tensors.

    dynamic: which sizes of tensors may be others on later calls without a new recording. None: as --dynamic says, which is
    those that did change; True: all from the first recording; False: none. torch._dynamo.mark_dynamic and mark_static of a
    tensor count before that."""
    if dynamic not in (None, True, False):
        raise TypeError(f"dynrun.compile() takes None, True or False as dynamic, not {dynamic!r}")
    if fn is None:
        return lambda f: compile(f, dynamic=dynamic, **options)
    if not callable(fn):
        raise TypeError(f"dynrun.compile() takes a function or a module, not {type(fn).__name__!r}")
    _mark(fn, None if dynamic is None else bool(dynamic))
    return fn

class disable:
    """disable(fn) -> a function that runs `fn` without recording or replay; `with disable():` for a block."""
    def __init__(self, fn=None):
        self._fn = fn
        if fn is not None:
            _functools.update_wrapper(self, fn, updated=())
    def __enter__(self):
        _disable(True)
        return self
    def __exit__(self, *exception):
        _disable(False)
        return False
    def __call__(self, *args, **kwargs):
        if self._fn is None:
            return disable(*args, **kwargs)
        _disable(True)
        try:
            return self._fn(*args, **kwargs)
        finally:
            _disable(False)
    def __get__(self, instance, owner=None):
        return self if instance is None else _functools.partial(self, instance)

def stats():
    """stats() -> dict

    What has been run, recorded and replayed since the start or the last reset_stats()."""
    return _json.loads(_stats())
)py";

}  // namespace

PyObject* make_module() {
  Ref module = Ref::steal(PyModule_Create(&definition));
  if (!module) return nullptr;
  PyObject* dict = PyModule_GetDict(module.get());
  if (PyDict_SetItemString(dict, "__builtins__", PyEval_GetBuiltins()) < 0) return nullptr;
  Ref code = Ref::steal(Py_CompileString(kSource, "<dynrun>", Py_file_input));
  Ref done = code ? Ref::steal(PyEval_EvalCode(code.get(), dict, dict)) : Ref();
  return done ? module.release() : nullptr;
}

}  // namespace dynrun::engine
