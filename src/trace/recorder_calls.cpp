// Calls: Python code is inlined by the VM; C code goes by its class in the table of callables.

#include "guards/numpy_scalar.h"
#include "guards/torch_python.h"
#include "python/text.h"
#include "trace/recorder.h"
#include "vm/hook.h"

#include <torch/csrc/Dtype.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

bool is_hashed_by_value(PyObject* object) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
      if (!is_hashed_by_value(PyTuple_GET_ITEM(object, i))) return false;
    }
    return true;
  }
  return guards::is_constant_like(object) && !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

namespace {

/// Whether C code makes text of what it is given.
bool makes_text(PyObject* callable) {
  static const std::unordered_set<std::string_view> names = {"repr", "ascii", "format", "format_map", "__format__", "__repr__", "__str__"};
  if (callable == reinterpret_cast<PyObject*>(&PyUnicode_Type)) return true;
  if (PyCFunction_Check(callable)) return names.count(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) != 0;
  if (Py_IS_TYPE(callable, &PyMethodDescr_Type)) return names.count(reinterpret_cast<PyMethodDescrObject*>(callable)->d_method->ml_name) != 0;
  return Py_IS_TYPE(callable, &PyWrapperDescr_Type) && names.count(reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base->name) != 0;
}

/// Functions of C that give the items of a set they are given in its order, or leave them where they are.
bool asks_no_order(const std::string& name) {
  static const std::unordered_set<std::string_view> names = {"len", "set", "frozenset", "type", "callable", "any", "all", "isinstance", "bool", "_abc_instancecheck", "_count_elements"};
  return names.count(name) != 0 || name.rfind("set.", 0) == 0 || name.rfind("frozenset.", 0) == 0;
}

/// Functions of C that do arithmetic by the operators of what they are given, which NumPy's may comment on.
bool calculates(const std::string& name) {
  static const std::unordered_set<std::string_view> names = {"sum", "pow", "divmod", "abs", "round", "prod", "add", "sub", "mul", "truediv", "floordiv", "mod", "neg", "iadd", "isub", "imul",
                                                             "itruediv", "ifloordiv", "imod", "ipow", "lshift", "rshift", "inv", "invert", "sumprod", "reduce"};
  return names.count(name) != 0;
}

/// The __new__ that collections.namedtuple writes: `lambda _cls, a, b: _tuple_new(_cls, (a, b))`.
bool makes_named_tuple(PyObject* function) {
  auto* code = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(function));
  PyObject* maker = PyDict_GetItemString(PyFunction_GET_GLOBALS(function), "_tuple_new");
  const bool of_tuple = maker && PyCFunction_CheckExact(maker) && PyCFunction_GET_SELF(maker) == reinterpret_cast<PyObject*>(&PyTuple_Type);
  return of_tuple && PyTuple_GET_SIZE(code->co_names) == 1 && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(code->co_names, 0), "_tuple_new") == 0 &&
         PyUnicode_CompareWithASCIIString(code->co_name, "<lambda>") == 0;
}

/// The slot wrapper type.__call__, borrowed.
PyObject* type_call() {
  static PyObject* const name = PyUnicode_InternFromString("__call__");
  return _PyType_Lookup(&PyType_Type, name);
}

}  // namespace

Ref Recorder::CallSite::pack_positional() const {
  Ref tuple = Ref::steal(PyTuple_New(positional));
  for (Py_ssize_t i = 0; tuple && i < positional; i++) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(arguments[static_cast<std::size_t>(i)]));
  return tuple;
}

Ref Recorder::CallSite::pack_keywords() const {
  if (keyword_names == nullptr || PyTuple_GET_SIZE(keyword_names) == 0) return Ref();
  Ref dict = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; dict && i < PyTuple_GET_SIZE(keyword_names); i++)
    PyDict_SetItem(dict.get(), PyTuple_GET_ITEM(keyword_names, i), arguments[static_cast<std::size_t>(positional + i)]);
  return dict;
}

Flow Recorder::push(vm::Activation& activation, const Instruction& in, PyObject* function, const std::vector<PyObject*>& arguments,
                    Py_ssize_t positional, PyObject* keyword_names, int slots, vm::Continuation continuation, PyObject* held,
                    bool null_below) {
  const bool inference = is_inference_switch(function, arguments);
  if (inference && arguments.size() == 1 && !may_enter_inference()) {
    Py_XDECREF(held);
    return cut(BreakId::k_opaque_call, "torch.inference_mode");
  }
  if (inference || is_profiler_mark(function, arguments))
    return run_profiler_mark(activation, function, arguments, positional, keyword_names, slots, continuation, held, null_below);
  if (!vm::Machine::is_inlinable(function)) {
    Py_XDECREF(held);
    return cut(BreakId::k_generator, callable_name(function));
  }
  if (!learn_function_defaults(function)) {
    Py_XDECREF(held);
    return cut(BreakId::k_unknown_object, "default arguments of " + callable_name(function));
  }
  std::vector<PyObject*> stolen;
  stolen.reserve(arguments.size());
  for (PyObject* argument : arguments) stolen.push_back(Py_NewRef(argument));
  Ref keep = Ref::borrow(function), names = Ref::borrow(keyword_names);
  for (int i = 0; i < slots; i++) Py_XDECREF(activation.pop());
  if (null_below) activation.push(nullptr);
  activation.pc++;
  (void)in;
  vm::Machine* machine = vm::current_machine();
  vm::Activation* pushed = machine->push_call(keep.get(), stolen.data(), positional, names.get(), continuation, held);
  if (pushed) return Flow::kResume;
  activation.pc--;  // the call is the instruction that raises
  return Flow::kRaise;
}

Flow Recorder::call(vm::Activation& activation, const Instruction& in) {
  CallSite site;
  int count = in.argument;
  PyObject* below = activation.peek(count + 2);
  site.callee = below ? below : activation.peek(count + 1);
  if (below) site.arguments.push_back(activation.peek(count + 1));
  for (int i = count; i >= 1; i--) site.arguments.push_back(activation.peek(i));
  if (in.keyword_names >= 0) site.keyword_names = PyTuple_GET_ITEM(activation.code->object->co_consts, in.keyword_names);
  Py_ssize_t named = site.keyword_names ? PyTuple_GET_SIZE(site.keyword_names) : 0;
  site.positional = static_cast<Py_ssize_t>(site.arguments.size()) - named;
  site.slots = count + 2;
  return call_site(activation, in, site);
}

Flow Recorder::call_function_ex(vm::Activation& activation, const Instruction& in) {
  bool has_keywords = in.argument & 1;
  PyObject* keywords = has_keywords ? activation.peek(1) : nullptr;
  PyObject* positional = activation.peek(has_keywords ? 2 : 1);
  CallSite site;
  site.callee = activation.peek(has_keywords ? 3 : 2);
  site.slots = has_keywords ? 4 : 3;
  if (!resolve(site.callee)) return cut(BreakId::k_unknown_object, Py_TYPE(site.callee)->tp_name);
  if (is_unsettled(positional)) return cut_unsettled(BreakId::k_changing_number, "arguments of a call");
  if (!PyTuple_CheckExact(positional) && !PyList_CheckExact(positional)) {
    const bool open_size = is_open_size(positional) && !holds_late(positional);
    if (!open_size && !resolve_deep(positional, 0, false)) return cut(BreakId::k_opaque_operation, "a call with * of an iterable");
    mutations_++;
    Flow flow = prepare(activation, in, 0, Then::kArguments);
    pending_.count = has_keywords ? 2 : 1;
    return flow;
  }
  if (!resolve(positional) || !resolve_deep(positional, 0, true)) return cut(BreakId::k_unknown_object, "the arguments of a call");
  for (Py_ssize_t i = 0; i < Py_SIZE(positional); i++)
    site.arguments.push_back(PyTuple_Check(positional) ? PyTuple_GET_ITEM(positional, i) : PyList_GET_ITEM(positional, i));
  site.positional = static_cast<Py_ssize_t>(site.arguments.size());
  Ref names;
  if (keywords) {
    if (!PyDict_CheckExact(keywords) || !resolve(keywords) || !resolve_deep(keywords, 0, true)) return cut(BreakId::k_unknown_object, "the keyword arguments of a call");
    if (PyDict_GET_SIZE(keywords) > 0) {
      names = Ref::steal(PyTuple_New(PyDict_GET_SIZE(keywords)));
      Py_ssize_t at = 0, i = 0;
      PyObject *key, *value;
      while (PyDict_Next(keywords, &at, &key, &value)) {
        if (!PyUnicode_Check(key)) return cut(BreakId::k_raise, "keywords must be strings");
        PyTuple_SET_ITEM(names.get(), i++, Py_NewRef(key));
        site.arguments.push_back(value);
      }
      site.keyword_names = names.get();
    }
  }
  return call_site(activation, in, site);
}

Flow Recorder::call_site(vm::Activation& activation, const Instruction& in, CallSite& site) {
  if (!resolve(site.callee)) {
    // A method of an object is known by the object.
    PyObject* self = bound_object(site.callee);
    if (!self || !resolve(self)) return cut(BreakId::k_opaque_call, callable_name(site.callee));
  }
  for (PyObject* argument : site.arguments) {
    if (argument == nullptr || !resolve(argument)) return cut(BreakId::k_unknown_object, argument ? Py_TYPE(argument)->tp_name : "nothing");
  }
  if (auto settled = settle_arguments(activation, site)) return *settled;
  PyObject* callee = site.callee;
  if (PyMethod_Check(callee)) {
    PyObject *function = PyMethod_GET_FUNCTION(callee), *self = PyMethod_GET_SELF(callee);
    if (SourceId source = source_of(callee); source != kNoSource) {
      if (!learn_external(function, guards_.read(SourceKind::kMethodFunction, source, 0, nullptr)) ||
          !learn_external(self, guards_.read(SourceKind::kMethodSelf, source, 0, nullptr)))
        return cut(BreakId::k_unknown_object, "a bound method");
    }
    if (!resolve(function) || !resolve(self)) return cut(BreakId::k_unknown_object, "a bound method");
    site.callee = function;
    site.arguments.insert(site.arguments.begin(), self);
    site.positional++;
    return call_site(activation, in, site);
  }
  if (PyFunction_Check(callee)) return call_python(activation, in, site);
  if (PyType_Check(callee)) return call_class(activation, in, site, false);
  if (callee == type_call() && site.positional > 0 && PyType_Check(site.arguments[0])) {
    site.callee = site.arguments[0];
    site.arguments.erase(site.arguments.begin());
    site.positional--;
    return call_class(activation, in, site, true);
  }
  if (PyCFunction_Check(callee)) return call_builtin(activation, in, site, callee, bound_object(callee));
  if (Py_TYPE(callee) == &PyMethodDescr_Type || Py_TYPE(callee) == &PyWrapperDescr_Type || Py_TYPE(callee) == &PyClassMethodDescr_Type)
    return call_builtin(activation, in, site, callee, site.arguments.empty() ? nullptr : site.arguments[0]);
  if (Py_TYPE(callee) == &_PyMethodWrapper_Type) {
    // `super().__init__` and the like: judged by the slot wrapper behind it.
    Ref self = Ref::steal(PyObject_GetAttrString(callee, "__self__"));
    Ref name = Ref::steal(PyObject_GetAttrString(callee, "__name__"));
    Ref owner = Ref::steal(PyObject_GetAttrString(callee, "__objclass__"));
    PyObject* wrapper = owner && name ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name.get()) : nullptr;
    if (!self || !wrapper || !resolve(self.get())) {
      PyErr_Clear();
      return cut(BreakId::k_opaque_call, callable_name(callee));
    }
    if (wrapper == type_call() && PyType_Check(self.get())) {
      site.callee = self.get();
      return call_class(activation, in, site, true);
    }
    site.arguments.insert(site.arguments.begin(), self.get());
    site.positional++;
    return call_builtin(activation, in, site, wrapper, self.get());
  }
  return call_instance(activation, in, site);
}

Flow Recorder::call_python(vm::Activation& activation, const Instruction& in, CallSite& site) {
  if (is_log_call(site)) return log(activation, site);
  find_level(site);
  if (auto copied = deep_copy(activation, in, site)) return *copied;
  bool apart = limits_.apart && limits_.apart->count(reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(site.callee))) != 0;
  if ((apart || vm::is_displaced()) && vm::current_machine() == &machine_) return cut(BreakId::k_opaque_call, callable_name(site.callee));
  if (!learn_function_defaults(site.callee)) return cut(BreakId::k_unknown_object, "default arguments of " + callable_name(site.callee));
  if (!vm::Machine::is_inlinable(site.callee)) {
    int flags = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(site.callee))->co_flags;
    if ((flags & CO_GENERATOR) == 0) return cut(BreakId::k_generator, callable_name(site.callee));
    for (PyObject* argument : site.arguments) {
      if (!resolve_deep(argument)) return cut(BreakId::k_unknown_object, "an argument of a generator");
    }
    return prepare(activation, in, site.slots, Then::kGenerator);
  }
  return push(activation, in, site.callee, site.arguments, site.positional, site.keyword_names, site.slots, vm::Continuation::kPushResult);
}

Flow Recorder::call_instance(vm::Activation& activation, const Instruction& in, CallSite& site) {
  PyObject* callee = site.callee;
  if (std::string_view(Py_TYPE(callee)->tp_name) == "functools.partial") return call_partial(activation, in, site);
  if (std::string_view(Py_TYPE(callee)->tp_name) == "functools._lru_cache_wrapper") return call_cached(activation, site);
  if (is_getter(callee)) return call_getter(activation, in, site);
  if (auto done = call_numpy(activation, site)) return *done;
  if (PyWeakref_CheckRefExact(callee) && site.arguments.empty()) return call_reference(activation, in, site);
  classify_operator(callee);  // so that the function behind a torch.ops operator is known when its __call__ gets there
  if (PyObject* method = python_method(callee, "__call__")) {
    site.arguments.insert(site.arguments.begin(), callee);
    site.positional++;
    site.callee = method;
    return call_python(activation, in, site);
  }
  if (std::string_view(Py_TYPE(callee)->tp_name) == "dynrun.Scoped") return call_compiled(activation, in, site);
  return cut(BreakId::k_opaque_call, std::string("an object of class ") + Py_TYPE(callee)->tp_name);
}

/// A compiled function inside another one.
Flow Recorder::call_compiled(vm::Activation& activation, const Instruction& in, CallSite& site) {
  PyObject* function = limits_.function_within ? limits_.function_within(site.callee) : nullptr;
  const SourceId owner = source_of(site.callee);
  if (function == nullptr || owner == kNoSource) return cut(BreakId::k_scope);
  Ref name = Ref::steal(PyUnicode_InternFromString("function"));
  PyObject* member = _PyType_Lookup(Py_TYPE(site.callee), name.get());
  if (!learn_external(function, guards_.read(SourceKind::kMember, owner, 0, name.get(), member)) || !resolve_deep(function)) return cut(BreakId::k_scope);
  site.callee = function;
  return call_python(activation, in, site);
}

/// Whether an instance that the segment began with keeps the object alive until now.
bool Recorder::is_kept_outside(PyObject* object) {
  const SourceId source = source_of(object);
  if (source == kNoSource || !guards_.is_of_instance(source)) return false;
  const guards::Program::Root root = guards_.root_of(source);
  if (root.kind == SourceKind::kStack) return false;
  if (root.kind == SourceKind::kLocal) {
    const EntrySlots& slots = entry_[static_cast<std::size_t>(root.depth)];
    if (!slots.activation || slots.written[static_cast<std::size_t>(root.slot)]) return false;
  }
  const std::string path = guards_.describe(source);
  return std::none_of(effects_.begin(), effects_.end(), [&](const PendingEffect& effect) {
    // It may be what the attribute or item held before.
    const bool named = effect.key && PyUnicode_Check(effect.key.get()) && path.find(python::text_of(effect.key.get())) != std::string::npos;
    return named || effect.kind == EffectKind::kDeleteItem || effect.kind == EffectKind::kDeleteAttribute || effect.kind == EffectKind::kSetCell;
  });
}

/// What a weak reference from outside refers to: something that has died, or that an instance keeps alive. Whether anything else
/// still lives here is not known: recordings hold what they have seen, and replays let go of locals at their exits.
Flow Recorder::call_reference(vm::Activation& activation, const Instruction& in, const CallSite& site) {
  PyObject* referent = PyWeakref_GET_OBJECT(site.callee);
  const SourceId source = source_of(site.callee);
  if (source == kNoSource || (referent != Py_None && !is_kept_outside(referent))) return cut(BreakId::k_opaque_call, "a weak reference");
  const SourceId path = guards_.read(SourceKind::kReferent, source, 0, nullptr);
  if (referent == Py_None) guards_.check_is(path, Py_None);
  else guards_.check_same(path, source_of(referent), true);
  return prepare(activation, in, site.slots, Then::kLearnTop);
}

/// `by_type`: type.__call__ makes the object, whatever the metaclass says.
Flow Recorder::call_class(vm::Activation& activation, const Instruction& in, CallSite& site, bool by_type) {
  auto* type = reinterpret_cast<PyTypeObject*>(site.callee);
  std::string name = type->tp_name;
  CallKind kind = classify_callable(site.callee);
  if (auto done = call_numpy(activation, site)) return *done;
  if (kind.call_class == CallClass::kPure) return call_builtin(activation, in, site, site.callee, nullptr);
  if (PyExceptionClass_Check(site.callee)) {
    for (PyObject* argument : site.arguments) is_constant(argument);  // its text is made of them
  }
  if (PyExceptionClass_Check(site.callee) && (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && Py_TYPE(type) == &PyType_Type) return call_exception(activation, in, site);
  if (PyExceptionClass_Check(site.callee) && !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return prepare(activation, in, site.slots, Then::kLearnTop);
  static PyObject* call_name = PyUnicode_InternFromString("__call__");
  static PyObject* new_name = PyUnicode_InternFromString("__new__");
  static PyObject* init_name = PyUnicode_InternFromString("__init__");
  if (type == &PyBaseObject_Type && site.arguments.empty()) return prepare(activation, in, site.slots, Then::kFreshTop);
  if (type == &_PyWeakref_RefType && site.arguments.size() == 1 && stays_plain_class(site.arguments[0])) return prepare(activation, in, site.slots, Then::kFreshTop);
  if (is_namespace(type) && site.positional == 0) {
    for (PyObject* argument : site.arguments) {
      if (!resolve(argument)) return cut(BreakId::k_unknown_object, name);
    }
    return prepare(activation, in, site.slots, Then::kFreshTop);
  }
  if (!by_type && (Py_TYPE(type)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    // A metaclass with a __call__ in Python (an enumeration's).
    if (PyObject* method = python_method(site.callee, "__call__")) {
      site.arguments.insert(site.arguments.begin(), site.callee);
      site.positional++;
      site.callee = method;
      return call_python(activation, in, site);
    }
  }
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || (!by_type && _PyType_Lookup(Py_TYPE(type), call_name) != _PyType_Lookup(&PyType_Type, call_name)))
    return cut(BreakId::k_opaque_call, name);
  PyObject* maker = _PyType_Lookup(type, new_name);
  PyObject* init = _PyType_Lookup(type, init_name);
  guards_.note_type_lookup(type, new_name, maker);
  guards_.note_type_lookup(type, init_name, init);
  SourceId source = source_of(site.callee);
  if (source == kNoSource) return cut(BreakId::k_opaque_call, name);
  bool python_init = init && PyFunction_Check(init);
  bool plain_new = type->tp_new == PyBaseObject_Type.tp_new || type->tp_new == PyDict_Type.tp_new || (python_init && builtin_base(type) == &PyProperty_Type);
  bool python_new = maker && Py_TYPE(maker) == &PyStaticMethod_Type && PyFunction_Check(*reinterpret_cast<PyObject**>(maker + 1));
  if (python_new && !python_init && type->tp_init == PyBaseObject_Type.tp_init && PyType_IsSubtype(type, &PyTuple_Type) && makes_named_tuple(*reinterpret_cast<PyObject**>(maker + 1))) {
    // What it makes is of this very class, and not looked at any further.
    PyObject* function = *reinterpret_cast<PyObject**>(maker + 1);
    const SourceId path = guards_.read(SourceKind::kWrapped, guards_.read(SourceKind::kTypeAttribute, source, 0, new_name), 0, nullptr);
    if (!learn_external(function, path)) return cut(BreakId::k_opaque_call, name);
    site.arguments.insert(site.arguments.begin(), site.callee);
    site.positional++;
    site.callee = function;
    return call_python(activation, in, site);
  }
  if (python_new && (python_init || type->tp_init == PyBaseObject_Type.tp_init)) {
    // type.__call__ runs __new__ and __init__, which are looked on at like any code that C calls.
    guards_.require_unchanged(type);
    for (PyObject* argument : site.arguments) {
      if (!resolve_deep(argument)) return cut(BreakId::k_unknown_object, name);
    }
    return prepare(activation, in, site.slots, Then::kLearnTop);
  }
  const bool collection = (type->tp_new == PyDict_Type.tp_new && type->tp_init == PyDict_Type.tp_init && !site.arguments.empty()) ||
                          (type->tp_new == PyList_Type.tp_new && type->tp_init == PyList_Type.tp_init && !site.keyword_names);
  if (collection && type->tp_finalize == nullptr && type->tp_del == nullptr) {
    // A subclass of dict or list that is made as these are.
    for (PyObject* argument : site.arguments) {
      if (!resolve_deep(argument)) return cut(BreakId::k_unknown_object, name);
      if (is_fresh(argument) && PyIter_Check(argument)) mutations_++;
    }
    return prepare(activation, in, site.slots, Then::kFreshTop);
  }
  if (type->tp_new == PyTuple_Type.tp_new && !python_init && site.arguments.size() == 1 && !site.keyword_names) {
    // A subclass of tuple without a __new__ of its own.
    if (!resolve_deep(site.arguments[0])) return cut(BreakId::k_unknown_object, name);
    if (is_fresh(site.arguments[0]) && PyIter_Check(site.arguments[0])) mutations_++;
    return prepare(activation, in, site.slots, Then::kNewTuple);
  }
  if (!plain_new || (!python_init && (type->tp_init != PyBaseObject_Type.tp_init || !site.arguments.empty())))
    return cut(BreakId::k_opaque_call, name);
  if (type->tp_flags & Py_TPFLAGS_IS_ABSTRACT || type->tp_finalize != nullptr || type->tp_del != nullptr) return cut(BreakId::k_opaque_call, name);
  if (python_init && !learn_external(init, guards_.read(SourceKind::kTypeAttribute, source, 0, init_name))) return cut(BreakId::k_opaque_call, name);
  Ref empty = Ref::steal(PyTuple_New(0));
  Ref object = Ref::steal(type->tp_new(type, empty.get(), nullptr));
  if (!object) return Flow::kRaise;
  learn_fresh(object.get());
  if (!python_init) {
    for (int i = 0; i < site.slots; i++) Py_XDECREF(activation.pop());
    activation.push(object.release());
    activation.pc++;
    return Flow::kResume;
  }
  site.arguments.insert(site.arguments.begin(), object.get());
  PyObject* held = Py_NewRef(object.get());
  return push(activation, in, init, site.arguments, site.positional + 1, site.keyword_names, site.slots, vm::Continuation::kDropPushHeld, held);
}

/// An exception class of the program's own: made by BaseException.__new__, then its __init__ in Python, or none.
Flow Recorder::call_exception(vm::Activation& activation, const Instruction& in, CallSite& site) {
  auto* type = reinterpret_cast<PyTypeObject*>(site.callee);
  static PyObject* new_name = PyUnicode_InternFromString("__new__");
  static PyObject* init_name = PyUnicode_InternFromString("__init__");
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  SourceId source = source_of(site.callee);
  if (source == kNoSource || type->tp_new != base->tp_new || site.keyword_names) return cut(BreakId::k_opaque_call, type->tp_name);
  PyObject *maker = _PyType_Lookup(type, new_name), *init = _PyType_Lookup(type, init_name);
  guards_.note_type_lookup(type, new_name, maker);
  guards_.note_type_lookup(type, init_name, init);
  bool python_init = init && PyFunction_Check(init);
  if (!python_init) return type->tp_init == base->tp_init ? prepare(activation, in, site.slots, Then::kFreshTop) : cut(BreakId::k_opaque_call, type->tp_name);
  if (!learn_external(init, guards_.read(SourceKind::kTypeAttribute, source, 0, init_name))) return cut(BreakId::k_opaque_call, type->tp_name);
  Ref arguments = site.pack_positional();
  Ref object = Ref::steal(type->tp_new(type, arguments.get(), nullptr));
  if (!object) return Flow::kRaise;
  learn_fresh(object.get());
  site.arguments.insert(site.arguments.begin(), object.get());
  PyObject* held = Py_NewRef(object.get());
  return push(activation, in, init, site.arguments, site.positional + 1, nullptr, site.slots, vm::Continuation::kDropPushHeld, held);
}

/// `tensor.type()` is a text that follows from the tensor's type; with a type it converts.
static CallKind kind_of_type_call(const std::vector<PyObject*>& arguments) {
  if (arguments.size() == 1) return {CallClass::kModelled, Model::kMetadata};
  const bool converts = arguments.size() == 2 && (THPDtype_Check(arguments[1]) || PyUnicode_CheckExact(arguments[1]));
  return {converts ? CallClass::kTransparent : CallClass::kOpaque, Model::kNone};
}

Flow Recorder::call_builtin(vm::Activation& activation, const Instruction& in, CallSite& site, PyObject* callable, PyObject* self) {
  CallKind kind = classify_callable(callable);
  std::string name = callable_name(callable);
  if (name == "TensorBase.type" && !site.keyword_names) kind = kind_of_type_call(site.arguments);
  if (callable == reinterpret_cast<PyObject*>(&PyType_Type) && site.arguments.size() != 1) return cut(BreakId::k_opaque_call, name);  // makes a class
  if (auto done = call_unsized_size(activation, site, self)) return *done;
  if (!may_take_unsized(site, kind, self, name)) return cut(BreakId::k_data_dependent_operator, name);
  if (is_class_statement(callable)) return build_class(activation, site);
  if (auto done = call_size(activation, site, self)) return *done;
  if (auto done = call_contiguous(activation, site, self)) return *done;
  if (auto done = call_fold(activation, site, callable, self)) return *done;
  if (auto done = call_item(activation, site)) return *done;
  if (auto done = call_list(activation, site)) return *done;
  if (auto done = call_array(activation, in, site)) return *done;
  if (auto done = call_text_method(activation, site, self)) return *done;
  if (auto done = call_clock(activation, in, site)) return *done;
  if (auto done = call_generator(activation, site, callable, self)) return *done;
  if (auto done = call_autograd_function(activation, in, site)) return *done;
  if (kind.call_class == CallClass::kOpaque) return cut(BreakId::k_opaque_call, name);
  if (callable == reinterpret_cast<PyObject*>(&PyBool_Type) && site.arguments.size() == 1 && guards::is_plain_tensor(site.arguments[0])) {
    if (!require_content(site.arguments[0])) {
      const auto truth = resolve(site.arguments[0]) ? assume_truth(activation, in, site.arguments[0], activation.pc + 1) : std::nullopt;
      return truth ? give(activation, Ref::borrow(*truth ? Py_True : Py_False), site.slots) : cut(BreakId::k_data_dependent_bool, name);
    }
    UnrecordedScope unrecorded;
    return give(activation, Ref::steal(PyBool_FromLong(guards::tensor_of(site.arguments[0]).item().toBool())), site.slots);
  }
  if (kind.call_class == CallClass::kPure && calculates(name) && std::any_of(site.arguments.begin(), site.arguments.end(), guards::is_numpy_scalar)) return cut(BreakId::k_opaque_call, name);
  settle_sizes(site, kind, name);
  const bool by_name = kind.call_class == CallClass::kPure || kind.model == Model::kWriteFresh || kind.model == Model::kWriteFirst || kind.model == Model::kDictPop;
  if (by_name) note_compared_by(name, self, site);
  auto looks_outside = [this](PyObject* argument) { return looks_unseen(argument); };
  if (kind.call_class == CallClass::kPure && std::any_of(site.arguments.begin(), site.arguments.end(), looks_outside)) return cut(BreakId::k_opaque_call, name);
  if (kind.call_class == CallClass::kPure || kind.model == Model::kWriteFresh) {
    const bool any_order = asks_no_order(name) && name != "set.pop";
    for (PyObject* argument : site.arguments) {
      if (PyAnySet_Check(argument) && !any_order && !has_fixed_order(argument)) return cut(BreakId::k_opaque_operation, "the order of a set of objects");
    }
    if (name == "set.pop" && self && !has_fixed_order(self)) return cut(BreakId::k_opaque_operation, "the order of a set of objects");
  }
  const bool metadata = kind.model == Model::kMetadata;
  if (metadata && !site.arguments.empty() && guards::is_tensor(site.arguments[0])) operators_.asked.insert(guards::tensor_of(site.arguments[0]).unsafeGetTensorImpl());
  if (kind.call_class == CallClass::kModelled && !metadata) return call_modelled(activation, in, site, kind.model, self, callable);
  bool any_host = false, numbers = site.keyword_names == nullptr;
  for (PyObject* argument : site.arguments) any_host = any_host || is_host(argument) || is_late(argument) || holds_hosts(argument), numbers = numbers && is_operand(argument);
  if (any_host && numbers && kind.call_class == CallClass::kPure && is_number_function(callable))
    return compute_host(activation, in, HostKind::kCall, 0, site.arguments, callable, site.slots);
  // What does not ask for the order of a set's items.
  static const std::unordered_set<std::string> orderless = {"sorted", "sum", "min", "max", "any", "all"};
  if (orderless.count(name) && site.arguments.size() == 1 && PyAnySet_CheckExact(site.arguments[0]) && source_of(site.arguments[0]) != kNoSource &&
      !is_dirty(site.arguments[0]) && set_is_plain(site.arguments[0])) {
    guards_.check_set(source_of(site.arguments[0]), site.arguments[0]);
    return prepare(activation, in, site.slots, Then::kLearnTop);
  }
  if ((name == "str" || name == "repr") && site.arguments.size() == 1 && PyAnySet_CheckExact(site.arguments[0]) && has_constant_text(site.arguments[0]))
    return prepare(activation, in, site.slots, Then::kLearnTop);
  if (name == "len" && site.arguments.size() == 1 && PyAnySet_CheckExact(site.arguments[0]) && source_of(site.arguments[0]) != kNoSource) {
    if (is_dirty(site.arguments[0])) return cut(BreakId::k_read_after_write, name);
    guards_.check_length(source_of(site.arguments[0]), PySet_GET_SIZE(site.arguments[0]));
    return prepare(activation, in, site.slots, Then::kNothing);
  }
  const bool only_types = name.rfind("_has_torch_function", 0) == 0;
  const bool views = self && PyDict_CheckExact(self) && (name == "dict.items" || name == "dict.values" || name == "dict.keys");
  static const std::unordered_set<std::string> passes_on = {"list", "tuple", "iter", "zip", "enumerate", "reversed", "type", "callable", "len"};
  if ((!hosts_.empty() || any_unsettled()) && !only_types && !passes_on.count(name)) {
    const bool yields = records_sizes() && (name == "all" || name == "any" || name == "dict" || name == "OrderedDict");  // `look_at_yielded`
    for (PyObject* argument : site.arguments) {
      bool open = guards::is_constant_like(argument) || guards::is_tensor(argument) || PyList_CheckExact(argument) || PyTuple_CheckExact(argument) ||
                  PyDict_CheckExact(argument) || (records_sizes() && PyODict_CheckExact(argument)) || !is_fresh(argument) || (PyGen_CheckExact(argument) && yields);
      if (!open && !settle_hidden(argument)) return cut_unsettled(BreakId::k_changing_number, name.c_str());
    }
  }
  for (PyObject* argument : site.arguments) {
    if (kind.call_class == CallClass::kTransparent && (is_host(argument) || is_late(argument))) continue;
    const bool offered = kind.call_class == CallClass::kTransparent && holds_hosts(argument);
    if ((name == "dict" || name == "dict.copy") && PyDict_Check(argument) && resolve_to_copy(argument)) continue;
    if (!resolve_deep(argument, 0, only_types || views || offered || (records_sizes() && !is_host(argument) && passes_on.count(name)))) return cut(BreakId::k_unknown_object, std::string("a ") + Py_TYPE(argument)->tp_name + " given to " + name);
    if (guards::is_tensor(argument) && !guards::is_plain_tensor(argument)) return cut(BreakId::k_unsupported_tensor, Py_TYPE(argument)->tp_name);
  }
  // A method of an immutable set is known with the set.
  if (self && !PyFrozenSet_CheckExact(self) && !(name == "dict.copy" && PyDict_CheckExact(self) && resolve_to_copy(self)) && !resolve_deep(self, 0, views)) return cut(BreakId::k_unknown_object, name);
  if (kind.call_class == CallClass::kTransparent || metadata) {
    Flow flow = prepare(activation, in, site.slots, Then::kLearnTop);
    bool bound_self = PyCFunction_Check(callable) && bound_object(callable) != nullptr;
    const bool any_tensor = std::any_of(site.arguments.begin(), site.arguments.end(), [](PyObject* argument) { return guards::is_tensor(argument); });
    if (any_host || any_tensor) offer_hosts(site.arguments, bound_self ? 1 : 0, site.keyword_names, name);
    if (!operators_.host_arguments.empty()) {
      operators_.host_callee = name.substr(name.rfind('.') + 1);
    }
    return flow;
  }
  if (name == "_abc_instancecheck" || name == "_abc_subclasscheck") {
    // What abstract classes count as theirs changes when one is registered; a counter tells.
    static const python::Kept token_function = import_path("_abc:get_cache_token");
    Ref token = Ref::steal(token_function ? PyObject_CallNoArgs(token_function.get()) : nullptr);
    if (!token || !PyLong_CheckExact(token.get())) return cut(BreakId::k_opaque_call, name);
    host_.require_equal(host_.compute(HostKind::kCall, 0, {}, token_function.get(), token.get()), token.get());
  }
  // Pure functions of numbers ask tensors and objects for their values.
  bool reads_values = PyType_Check(callable) ? (callable == reinterpret_cast<PyObject*>(&PyLong_Type) || callable == reinterpret_cast<PyObject*>(&PyFloat_Type) ||
                                                callable == reinterpret_cast<PyObject*>(&PyBool_Type) || callable == reinterpret_cast<PyObject*>(&PyUnicode_Type) ||
                                                callable == reinterpret_cast<PyObject*>(&PyComplex_Type))
                                             : (name == "repr" || name == "format" || name == "round" || name == "hash" || name == "sorted" || name == "min" || name == "max" || name == "any" || name == "all");
  if (makes_text(callable) || std::any_of(site.arguments.begin(), site.arguments.end(), makes_text)) {
    for (PyObject* argument : site.arguments) {
      if (!makes_text(argument) && !guards::is_tensor(argument) && !is_unsettled(argument) && !has_guarded_text(argument)) return cut(BreakId::k_opaque_call, name);
    }
    if (callable == reinterpret_cast<PyObject*>(&PyUnicode_Type) && site.arguments.size() == 1 && PyType_Check(site.arguments[0]))
      return prepare(activation, in, site.slots, Then::kLearnTop);  // the name of a class
  }
  for (PyObject* argument : site.arguments) {
    if (reads_values && guards::is_tensor(argument)) return cut(BreakId::k_data_dependent_bool, name);
    if (reads_values && !is_constant(argument) && !PyTuple_Check(argument) && !PyList_CheckExact(argument) && !PyDict_CheckExact(argument) &&
        !is_fresh(argument) && !PyFunction_Check(argument) && classify_callable(argument).call_class != CallClass::kPure)
      return cut(BreakId::k_opaque_call, name);
  }
  for (PyObject* argument : site.arguments) {
    if (is_fresh(argument) && PyIter_Check(argument)) mutations_++;  // C code may use it up
  }
  if (name == "iter" || name == "next" || name == "list" || name == "tuple" || name == "zip" || name == "enumerate" || name == "dict") {
    for (PyObject* argument : site.arguments) {
      bool outside_iterator = !is_open_size(argument) && !is_constant(argument) && !is_fresh(argument) && PyIter_Check(argument);
      if (outside_iterator || (PyAnySet_Check(argument) && !is_fresh(argument))) return cut(BreakId::k_opaque_call, name);
    }
  }
  Flow flow = prepare(activation, in, site.slots, Then::kLearnTop);
  // What a generator or iterator gives is kept, or looked at as `yield_value` knows.
  static const std::unordered_set<std::string_view> keeps = {"list", "tuple", "iter", "enumerate", "zip", "reversed"};
  const bool truth = name == "all" || name == "any", pairs = name == "dict" || name == "OrderedDict";
  pending_.passes_through = records_sizes() && (truth || pairs || keeps.count(name) != 0);
  pending_.yields = truth ? Pending::Yields::kTruth : pairs ? Pending::Yields::kPairs : Pending::Yields::kKept;
  return flow;
}

/// Whether C code that calls this looks, unseen, into objects that nothing of is guarded: a method of a container from outside, what
/// reads attributes by their names.
bool Recorder::looks_unseen(PyObject* callable) {
  static const std::unordered_set<std::string_view> by_name = {"getattr", "hasattr", "vars", "dir", "__getattribute__", "__get__"};
  static const std::unordered_set<std::string_view> types = {"operator.attrgetter", "operator.methodcaller", "method-wrapper"};
  if (types.count(Py_TYPE(callable)->tp_name)) return true;
  if (Py_IS_TYPE(callable, &PyWrapperDescr_Type)) return by_name.count(reinterpret_cast<PyWrapperDescrObject*>(callable)->d_base->name) != 0;
  if (Py_TYPE(callable)->tp_name == std::string_view("functools.partial")) {
    for (const char* part : {"func", "args"}) {
      Ref held = Ref::steal(PyObject_GetAttrString(callable, part));
      if (!held || (PyTuple_Check(held.get()) ? holds_unseen(held.get()) : looks_unseen(held.get()))) return PyErr_Clear(), true;
    }
  }
  if (!PyCFunction_Check(callable)) return false;
  PyObject* owner = bound_object(callable);
  if (owner && (PyAnySet_Check(owner) || PyDict_Check(owner) || PyList_Check(owner))) return !is_fresh(owner);
  return by_name.count(reinterpret_cast<PyCFunctionObject*>(callable)->m_ml->ml_name) != 0;
}

/// Whether its items come in the order that they came in when the set was recorded: they hash by value or by Python code, or are the
/// very objects of then. Others hash by where they lie.
bool Recorder::has_fixed_order(PyObject* set) {
  if (PyAnySet_Check(set) && PySet_GET_SIZE(set) < 2) return true;
  const Ref items = Ref::steal(PySequence_List(set));
  if (!items) return PyErr_Clear(), false;
  return std::all_of(&PyList_GET_ITEM(items.get(), 0), &PyList_GET_ITEM(items.get(), 0) + PyList_GET_SIZE(items.get()), [](PyObject* item) { return is_hashed_by_value(item) || is_plain_class(item) || is_hashed_by_program(item); });
}

bool Recorder::holds_unseen(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    if (looks_unseen(PyTuple_GET_ITEM(tuple, i))) return true;
  }
  return false;
}

}  // namespace dynrun::trace
