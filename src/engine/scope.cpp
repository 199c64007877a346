#include "engine/scope.h"

#include "engine/engine.h"
#include "vm/hook.h"
#include "python/reference.h"
#include "trace/callables.h"

#include <structmember.h>

#include <utility>

namespace dynrun::engine {

using python::Ref;

Scope& Scope::here() {
  thread_local Scope scope;
  return scope;
}

namespace {

bool asked_for = false;

const python::Frame* running_frame() { return reinterpret_cast<python::Frame*>(PyThreadState_Get()->cframe->current_frame); }

/// Reads a scope's tuple. False with a Python error set.
bool read_scope(PyObject* tuple, Scope& scope) {
  PyObject *backend, *dynamic;
  int fullgraph, at_once, of_function = 0;
  if (!PyTuple_Check(tuple)) {
    PyErr_SetString(PyExc_TypeError, "a scope is a tuple");
    return false;
  }
  if (!PyArg_ParseTuple(tuple, "OipO|p", &backend, &fullgraph, &at_once, &dynamic, &of_function)) return false;
  asked_for = true;
  vm::see_frames_again();
  scope.backend = engine()->backend_number(backend);
  scope.fullgraph = fullgraph;
  scope.at_once = at_once != 0;
  scope.of_function = of_function != 0;
  scope.dynamic.reset();
  scope.outside = running_frame();
  if (dynamic != Py_None) scope.dynamic = dynamic == Py_True ? kDynrunDynamicOn : kDynrunDynamicOff;
  return true;
}

Ref write_scope(const Scope& scope) {
  PyObject* dynamic = !scope.dynamic ? Py_None : *scope.dynamic == kDynrunDynamicOn ? Py_True : Py_False;
  return Ref::steal(Py_BuildValue("(OiOOO)", engine()->backend_of(scope.backend), scope.fullgraph, scope.at_once ? Py_True : Py_False, dynamic, scope.of_function ? Py_True : Py_False));
}

/// Called by `__enter__` and `__exit__` of a block, which stands in the frame behind theirs.
PyObject* enter(PyObject*, PyObject* tuple) {
  Ref before = write_scope(Scope::here());
  if (!before || !read_scope(tuple, Scope::here())) return nullptr;
  const python::Frame* block = running_frame() ? running_frame()->previous : nullptr;
  while (block && block->owner == python::kOwnedByCStack) block = block->previous;
  Scope::here().outside = block;
  return before.release();
}

struct Scoped {
  PyObject_HEAD
  PyObject *function, *backend;
  Scope scope;  // but for the back end's number, which it may lose
  int forced;
};

Scoped* scoped(PyObject* object) { return reinterpret_cast<Scoped*>(object); }

PyObject* make_scoped(PyTypeObject* type, PyObject* arguments, PyObject*) {
  PyObject *function, *tuple;
  Scope scope;
  int forced = 0;
  if (!PyArg_ParseTuple(arguments, "OO|p", &function, &tuple, &forced) || !read_scope(tuple, scope)) return nullptr;
  PyObject* made = type->tp_alloc(type, 0);
  if (made == nullptr) return nullptr;
  scoped(made)->function = Py_NewRef(function);
  scoped(made)->backend = Py_NewRef(PyTuple_GET_ITEM(tuple, 0));
  new (&scoped(made)->scope) Scope(scope);
  scoped(made)->scope.of_function = true;
  scoped(made)->forced = forced;
  return made;
}

PyObject* call_scoped(PyObject* self, PyObject* arguments, PyObject* keywords) {
  if (Scope::here().of_function) return PyObject_Call(scoped(self)->function, arguments, keywords);
  struct Inside {
    explicit Inside(const Scope& scope) : before(std::exchange(Scope::here(), scope)) {}
    ~Inside() { Scope::here() = before; }
    Scope before;
  } inside(scoped(self)->scope);
  Scope::here().backend = engine()->backend_number(scoped(self)->backend);
  Scope::here().outside = running_frame();
  return PyObject_Call(scoped(self)->function, arguments, keywords);
}

int traverse_scoped(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(scoped(self)->function);
  Py_VISIT(scoped(self)->backend);
  return 0;
}

int clear_scoped(PyObject* self) {
  Py_CLEAR(scoped(self)->function);
  Py_CLEAR(scoped(self)->backend);
  return 0;
}

void drop_scoped(PyObject* self) {
  PyObject_GC_UnTrack(self);
  clear_scoped(self);
  PyTypeObject* type = Py_TYPE(self);
  type->tp_free(self);
  Py_DECREF(type);
}

PyMemberDef scoped_members[] = {{"function", T_OBJECT_EX, offsetof(Scoped, function), READONLY, nullptr}, {nullptr, 0, 0, 0, nullptr}};

PyType_Slot scoped_slots[] = {{Py_tp_new, reinterpret_cast<void*>(make_scoped)},           {Py_tp_call, reinterpret_cast<void*>(call_scoped)},
                              {Py_tp_traverse, reinterpret_cast<void*>(traverse_scoped)}, {Py_tp_clear, reinterpret_cast<void*>(clear_scoped)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(drop_scoped)},      {Py_tp_members, scoped_members},
                              {0, nullptr}};
PyType_Spec scoped_spec = {"dynrun.Scoped", sizeof(Scoped), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, scoped_slots};

PyObject* forget(PyObject*, PyObject* lower) {
  engine()->forget_backend(lower);
  return Py_NewRef(Py_None);
}

PyMethodDef forget_method = {"_forget", forget, METH_O, nullptr};
PyMethodDef enter_method = {"_enter", enter, METH_O, nullptr};

}  // namespace

bool Scope::any() { return asked_for; }

PyObject* Scope::function_within(PyObject* compiled) {
  if (Py_TYPE(compiled)->tp_call != call_scoped || (scoped(compiled)->forced && !here().of_function)) return nullptr;
  return scoped(compiled)->function;
}

bool Scope::runs_aside() {
  for (const python::Frame* frame = running_frame(); frame && frame != here().outside; frame = frame->previous) {
    if (frame->owner == python::kOwnedByCStack) continue;
    if (const std::optional<bool> prepares = engine()->prepares_backward(frame->code)) return *prepares;
    if (PyUnicode_CompareWithASCIIString(frame->code->co_name, "_find_and_load") == 0 &&
        PyUnicode_CompareWithASCIIString(frame->code->co_filename, "<frozen importlib._bootstrap>") == 0)
      return true;
  }
  return false;
}

bool add_scopes(PyObject* module) {
  Ref type = Ref::steal(PyType_FromSpec(&scoped_spec));
  if (!type || PyModule_AddObjectRef(module, "_Scoped", type.get()) < 0) return false;
  Ref forgetting = Ref::steal(PyCFunction_New(&forget_method, nullptr));
  if (!forgetting || PyModule_AddObjectRef(module, "_forget", forgetting.get()) < 0) return false;
  Ref function = Ref::steal(PyCFunction_New(&enter_method, nullptr));
  if (!function || PyModule_AddObjectRef(module, "_enter", function.get()) < 0) return false;
  trace::classify_as(function.get(), {trace::CallClass::kModelled, trace::Model::kScope});
  return true;
}

}  // namespace dynrun::engine
