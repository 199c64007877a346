// Callables of the standard library that C code makes: functools.partial, the getters of operator; and what sys tells of exceptions.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <array>

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

/// functools.partial: its three fields are read and the function behind it is called.
Flow Recorder::call_partial(vm::Activation& activation, const Instruction& in, CallSite& site) {
  PyObject* partial = site.callee;
  SourceId owner = source_of(partial);
  std::array<PyObject*, 3> parts{};
  const char* const names[] = {"func", "args", "keywords"};
  for (std::size_t i = 0; i < parts.size(); i++) {
    Ref name = Ref::steal(PyUnicode_InternFromString(names[i]));
    PyObject* member = _PyType_Lookup(Py_TYPE(partial), name.get());
    Ref value = Ref::steal(PyObject_GetAttr(partial, name.get()));
    if (!value || !member || Py_TYPE(member) != &PyMemberDescr_Type) return cut(BreakId::k_opaque_call, "functools.partial");
    parts[i] = value.get();  // the partial keeps it
    if (owner == kNoSource && i > 0) learn_fresh(value.get());
    bool known = owner == kNoSource ? resolve_deep(value.get())
                                    : learn_external(value.get(), guards_.read(SourceKind::kMember, owner, 0, name.get(), member)) && resolve_deep(value.get());
    if (!known) return cut(BreakId::k_unknown_object, "functools.partial");
  }
  CallSite inner;
  inner.callee = parts[0];
  inner.slots = site.slots;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts[1]); i++) inner.arguments.push_back(PyTuple_GET_ITEM(parts[1], i));
  inner.arguments.insert(inner.arguments.end(), site.arguments.begin(), site.arguments.begin() + site.positional);
  inner.positional = static_cast<Py_ssize_t>(inner.arguments.size());
  // Keywords of the partial come first; those of the call replace them.
  Ref merged = Ref::steal(PyDict_Copy(parts[2]));
  for (Py_ssize_t i = 0; site.keyword_names && i < PyTuple_GET_SIZE(site.keyword_names); i++)
    PyDict_SetItem(merged.get(), PyTuple_GET_ITEM(site.keyword_names, i), site.arguments[static_cast<std::size_t>(site.positional + i)]);
  Ref keyword_names = Ref::steal(PySequence_Tuple(merged.get()));
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(merged.get(), &at, &key, &value)) inner.arguments.push_back(value);
  if (PyDict_GET_SIZE(merged.get()) > 0) inner.keyword_names = keyword_names.get();
  const CallKind kind = classify_callable(inner.callee);
  const bool heap_class = PyType_Check(inner.callee) && (reinterpret_cast<PyTypeObject*>(inner.callee)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  const bool python = PyFunction_Check(inner.callee) || PyMethod_Check(inner.callee) || heap_class || python_method(inner.callee, "__call__");
  if (!python && kind.model != Model::kWarn && kind.model != Model::kPrint) {
    // C code behind it: the whole call runs as it stands, if that code could be called so.
    if (kind.call_class != CallClass::kPure && kind.call_class != CallClass::kTransparent) return cut(BreakId::k_opaque_call, "functools.partial");
    if (!may_take_unsized(inner, kind, nullptr, "functools.partial")) return cut(BreakId::k_data_dependent_operator, "functools.partial");
    for (PyObject* argument : inner.arguments) {
      if (!resolve_deep(argument)) return cut(BreakId::k_unknown_object, "functools.partial");
    }
    return prepare(activation, in, site.slots, Then::kLearnTop);
  }
  return call_site(activation, in, inner);
}

/// operator.itemgetter, attrgetter and methodcaller: what they were made with does not change.
Flow Recorder::call_getter(vm::Activation& activation, const Instruction& in, CallSite& site) {
  const std::string kind = Py_TYPE(site.callee)->tp_name;
  Ref reduced = Ref::steal(PyObject_CallMethod(site.callee, "__reduce__", nullptr));
  bool plain = reduced && PyTuple_Check(reduced.get()) && PyTuple_GET_SIZE(reduced.get()) == 2 &&
               PyTuple_GET_ITEM(reduced.get(), 0) == reinterpret_cast<PyObject*>(Py_TYPE(site.callee));
  PyErr_Clear();
  if (!plain || site.arguments.size() != 1 || site.keyword_names) return cut(BreakId::k_opaque_call, kind);
  PyObject *object = site.arguments[0], *parts = PyTuple_GET_ITEM(reduced.get(), 1);
  if (kind == "operator.itemgetter") {
    bool sequence = PyTuple_Check(object) || PyList_CheckExact(object) || PyDict_CheckExact(object) || PyUnicode_CheckExact(object);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(parts); i++) sequence = sequence && is_constant(PyTuple_GET_ITEM(parts, i));
    return sequence && resolve_deep(object) ? prepare(activation, in, site.slots, Then::kLearnTop) : cut(BreakId::k_opaque_call, kind);
  }
  PyObject* getter = nullptr;
  SourceId source = kNoSource;
  const bool method = kind == "operator.methodcaller";
  for (Py_ssize_t i = 0; i < (method ? 1 : PyTuple_GET_SIZE(parts)); i++) {
    PyObject* name = PyTuple_GET_ITEM(parts, i);
    bool simple = PyUnicode_CheckExact(name) && PyUnicode_FindChar(name, '.', 0, PyUnicode_GET_LENGTH(name), 1) < 0;
    if (!simple) return cut(BreakId::k_opaque_call, kind);
    Attribute found = look_up(object, name, &getter, &source);
    if (found == Attribute::kUnknown || found == Attribute::kMissing || (method && found != Attribute::kRun)) return cut(BreakId::k_opaque_call, kind);
  }
  if (!method) return prepare(activation, in, site.slots, Then::kLearnTop);
  Ref bound = Ref::steal(PyObject_GetAttr(object, PyTuple_GET_ITEM(parts, 0)));
  if (!bound || !learn_result(bound.get())) {
    PyErr_Clear();
    return cut(BreakId::k_opaque_call, kind);
  }
  CallSite inner;
  inner.callee = bound.get();
  inner.slots = site.slots;
  for (Py_ssize_t i = 1; i < PyTuple_GET_SIZE(parts); i++) {
    if (!is_constant(PyTuple_GET_ITEM(parts, i))) return cut(BreakId::k_opaque_call, kind);
    inner.arguments.push_back(PyTuple_GET_ITEM(parts, i));
  }
  inner.positional = static_cast<Py_ssize_t>(inner.arguments.size());
  return call_site(activation, in, inner);
}

namespace {

PyObject* is_handling(PyObject*, PyObject*) {
  Ref handled = Ref::steal(PyErr_GetHandledException());
  return PyBool_FromLong(handled && handled.get() != Py_None);
}

}  // namespace

/// Nobody further out handles an exception when the segment begins.
void Recorder::require_nothing_handled() {
  static PyMethodDef definition{"is_handling", is_handling, METH_NOARGS, nullptr};
  static const python::Kept function = Ref::steal(PyCFunction_New(&definition, nullptr));
  host_.require_equal(host_.compute(HostKind::kCall, 0, {}, function.get(), Py_False), Py_False);
}

/// sys.exc_info: what a handler of the segment caught; outside of one, that nobody further out handles anything is required.
Flow Recorder::handled_exception(vm::Activation& activation, const Instruction& in, CallSite& site) {
  if (!site.arguments.empty()) return cut(BreakId::k_opaque_call, callable_name(site.callee));
  if (handlers_entered_ == 0) {
    Ref handling = Ref::steal(is_handling(nullptr, nullptr));
    if (handling.get() == Py_True) return cut(BreakId::k_opaque_call, callable_name(site.callee));
    require_nothing_handled();
  }
  return prepare(activation, in, site.slots, Then::kLearnTop);
}

}  // namespace dynrun::trace
