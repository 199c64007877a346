#include "engine/module.h"

#include "engine/engine.h"
#include "engine/python_sources.h"
#include "engine/scope.h"
#include "engine/steady_frames.h"
#include "python/reference.h"
#include "trace/callables.h"
#include "trace/operator_recorder.h"

namespace dynrun::engine {

using python::Ref;

namespace {

PyObject* none() { return Py_NewRef(Py_None); }

PyObject* mark(PyObject*, PyObject* arguments) {
  PyObject *object = nullptr, *dynamic = nullptr;
  int fullgraph = Scope::kMayBreak;
  if (!PyArg_ParseTuple(arguments, "OO|i", &object, &dynamic, &fullgraph)) return nullptr;
  engine()->mark(object, dynamic == Py_None ? engine()->options().dynamic : dynamic == Py_True ? kDynrunDynamicOn : kDynrunDynamicOff, fullgraph);
  return none();
}

PyObject* disable_here(PyObject*, PyObject* on) {
  Engine::disabled_depth() += PyObject_IsTrue(on) ? 1 : -1;
  return none();
}

/// _apart(function, *arguments, **keywords): calls it with dynrun switched off.
PyObject* call_apart(PyObject*, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  if (count < 1) return PyErr_Format(PyExc_TypeError, "_apart() needs a function");
  const Quiet quiet;
  return PyObject_Vectorcall(arguments[0], arguments + 1, static_cast<std::size_t>(count - 1), names);
}

PyObject* measure(PyObject*, PyObject* on) {
  const bool reported = PyObject_IsTrue(on) == 1;
  engine()->measure(reported);
  count_operators_of_all_threads(reported);
  return none();
}

PyObject* stats_text(PyObject*, PyObject*) {
  note_that_counts_are_read();
  std::string text = report::to_json(engine()->report());
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PyObject* reset_stats(PyObject*, PyObject*) {
  note_that_counts_are_read();
  engine()->reset_report();
  return none();
}

PyObject* reset(PyObject*, PyObject*) {
  engine()->forget_segments();
  return none();
}

PyObject* break_here(PyObject*, PyObject* arguments, PyObject* keywords) {
  static const char* names[] = {"msg", nullptr};
  PyObject* message;
  return PyArg_ParseTupleAndKeywords(arguments, keywords, "|O", const_cast<char**>(names), &message) ? none() : nullptr;
}

/// The source of one file of the package `dynrun`.
PyObject* source(PyObject*, PyObject* name) {
  const char* wanted = PyUnicode_AsUTF8(name);
  if (wanted == nullptr) return nullptr;
  if (std::optional<std::string_view> text = python_source(wanted)) return PyUnicode_DecodeUTF8(text->data(), static_cast<Py_ssize_t>(text->size()), nullptr);
  return PyErr_Format(PyExc_ModuleNotFoundError, "dynrun has no module '%s'", wanted);
}

PyObject* call_class(PyObject*, PyObject* callable) { return PyUnicode_FromString(trace::class_name(trace::classify(callable).call_class)); }

/// Exact, for tests that count what a call runs.
PyObject* operator_count(PyObject*, PyObject*) {
  note_that_counts_are_read();
  count_exactly();
  return PyLong_FromUnsignedLongLong(trace::operator_count());
}

PyMethodDef methods[] = {{"_mark", mark, METH_VARARGS, nullptr},
                         {"_disable", disable_here, METH_O, nullptr},
                         {"_apart", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(call_apart)), METH_FASTCALL | METH_KEYWORDS, nullptr},
                         {"_measure", measure, METH_O, "Whether times are taken and operators counted, as they are where a report is asked for."},
                         {"_stats", stats_text, METH_NOARGS, nullptr},
                         {"_call_class", call_class, METH_O, "The class of a C callable or of a tensor's attribute: see trace/callables.h."},
                         {"_operator_count", operator_count, METH_NOARGS, "Top-level operators on the threads that count, since the start."},
                         {"_source", source, METH_O, nullptr},
                         {"graph_break", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(break_here)), METH_VARARGS | METH_KEYWORDS,
                          "graph_break(msg='')\n--\n\nEnds the recorded graph here; the next one begins behind it. Reports tell `msg`. Does nothing else."},
                         {"reset_stats", reset_stats, METH_NOARGS, "reset_stats()\n\nSets every number of stats() to zero."},
                         {"_reset", reset, METH_NOARGS, "Forgets every segment, how hot each function is, and the back ends."},
                         {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dynrun", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace

PyObject* make_module() {
  Ref module = Ref::steal(PyModule_Create(&definition));
  if (!module || !add_scopes(module.get())) return nullptr;
  PyObject* dict = PyModule_GetDict(module.get());
  trace::classify_as(PyDict_GetItemString(dict, "graph_break"), {trace::CallClass::kModelled, trace::Model::kBreak});
  trace::classify_as(PyDict_GetItemString(dict, "_apart"), {trace::CallClass::kModelled, trace::Model::kDisable});
  trace::classify_as(PyDict_GetItemString(dict, "_disable"), {trace::CallClass::kModelled, trace::Model::kDisable});
  if (PyDict_SetItemString(dict, "__builtins__", PyEval_GetBuiltins()) < 0) return nullptr;
  const std::string text(*python_source("__init__"));
  Ref code = Ref::steal(Py_CompileString(text.c_str(), "<dynrun>/__init__.py", Py_file_input));
  Ref done = code ? Ref::steal(PyEval_EvalCode(code.get(), dict, dict)) : Ref();
  return done ? module.release() : nullptr;
}

void run_part(const char* part, const char* function) {
  const Quiet quiet;
  Ref parts = Ref::steal(PyDict_New());
  const std::string text(python_source(part).value_or("")), file = std::string("<dynrun>/") + part + ".py";
  Ref code = Ref::steal(Py_CompileString(text.c_str(), file.c_str(), Py_file_input));
  static PyObject* kept = PyDict_New();  // by part
  PyObject* space = PyDict_GetItemString(kept, part);
  if (space == nullptr && code && PyDict_SetItemString(kept, part, parts.get()) == 0) {
    space = parts.get();
    PyDict_SetItemString(space, "__builtins__", PyEval_GetBuiltins());
    PyDict_SetItemString(space, "__name__", Ref::steal(PyUnicode_FromFormat("dynrun.%s", part)).get());
    Ref ran = Ref::steal(PyEval_EvalCode(code.get(), space, space));
  }
  PyObject* called = space && !PyErr_Occurred() ? PyDict_GetItemString(space, function) : nullptr;
  Ref result = called ? Ref::steal(PyObject_CallNoArgs(called)) : Ref();
  if (PyErr_Occurred()) PyErr_WriteUnraisable(called);
}

}  // namespace dynrun::engine
