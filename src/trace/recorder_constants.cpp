// Attributes that are neither an instance's own nor plain class attributes: of enumeration members, of named tuples, descriptors
// that Python code writes; and results that functools.lru_cache keeps.

#include "guards/cached_call.h"
#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <opcode.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace dynrun::trace {

namespace {

constexpr int kDeepestKey = 3;

}  // namespace

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

/// An attribute of an enumeration's member: its value and name, what its __init__ set, and its methods. Nothing: not one of these.
std::optional<Flow> Recorder::member_attribute(vm::Activation& activation, const Instruction& in, PyObject* owner, PyObject* name, bool method) {
  static PyObject* const value_name = PyUnicode_InternFromString("value");
  static PyObject* const name_name = PyUnicode_InternFromString("name");
  static PyObject* const own_value = PyUnicode_InternFromString("_value_");
  static PyObject* const own_name = PyUnicode_InternFromString("_name_");
  PyTypeObject* type = Py_TYPE(owner);
  if (!guards::is_constant_like(owner) || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return std::nullopt;
  PyObject* dict = guards::instance_dict(owner);
  PyObject* found = _PyType_Lookup(type, name);
  PyObject* key = name;
  bool of_enumeration = found && std::string_view(Py_TYPE(found)->tp_name) == "property" && Py_TYPE(found) != &PyProperty_Type;
  if (of_enumeration && PyUnicode_Compare(name, value_name) == 0) key = own_value;
  else if (of_enumeration && PyUnicode_Compare(name, name_name) == 0) key = own_name;
  else if (found && Py_TYPE(found)->tp_descr_set) return std::nullopt;
  PyObject* value = dict ? PyDict_GetItemWithError(dict, key) : nullptr;
  if (value == nullptr) {
    if (!found || !(PyFunction_Check(found) || Py_TYPE(found) == &PyStaticMethod_Type || Py_TYPE(found) == &PyClassMethod_Type)) return std::nullopt;
    SourceId source = kNoSource;
    if (class_value(owner, type, name, found, &source) == Attribute::kUnknown) return std::nullopt;
    return prepare(activation, in, 1, method ? Then::kLearnTopDeep : Then::kLearnTop);
  }
  guards_.note_type_lookup(type, name, found);
  SourceId items = guards_.read(SourceKind::kInstanceDict, guards_.constant(owner), 0, nullptr);
  if (!learn_external(value, guards_.read(SourceKind::kDictItem, items, 0, key))) return std::nullopt;
  Ref keep = Ref::steal(activation.pop());
  if (method) activation.push(nullptr);
  activation.push(Py_NewRef(value));
  activation.pc++;
  return Flow::kResume;
}

/// The field of a named tuple that C code's descriptor reads. Negative: it is none.
Py_ssize_t tuple_field(PyObject* descriptor) {
  struct TupleGetter {
    PyObject_HEAD
    Py_ssize_t index;
  };
  if (std::string_view(Py_TYPE(descriptor)->tp_name) != "collections._tuplegetter") return -1;
  return reinterpret_cast<TupleGetter*>(descriptor)->index;
}

/// A store that a property of Python code, or another descriptor's __set__, does.
std::optional<Flow> Recorder::store_by_descriptor(vm::Activation& activation, const Instruction& in, PyObject* owner, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(owner);
  PyObject* found = _PyType_Lookup(type, name);
  if (found == nullptr || Py_TYPE(found)->tp_descr_set == nullptr || type_source(owner) == kNoSource) return std::nullopt;
  guards_.note_type_lookup(type, name, found);
  SourceId path = guards_.read(SourceKind::kTypeAttribute, type_source(owner), 0, name);
  if (Py_TYPE(found) == &PyProperty_Type) {
    PyObject* setter = reinterpret_cast<PyObject**>(found + 1)[1];
    if (setter == nullptr || !PyFunction_Check(setter)) return std::nullopt;
    if (!learn_external(setter, guards_.read(SourceKind::kPropertySetter, path, 0, nullptr))) return std::nullopt;
    return push(activation, in, setter, {owner, value}, 2, nullptr, 2, vm::Continuation::kDrop);
  }
  PyObject* setter = python_method(found, "__set__", path);
  if (setter == nullptr) return std::nullopt;
  return push(activation, in, setter, {found, owner, value}, 3, nullptr, 2, vm::Continuation::kDrop);
}

/// An argument as a part of a cache's key: a constant, a class, tuples of such; an object from outside that hashes by identity is
/// told by where it is read, and not held. Null for another.
Ref Recorder::key_part(PyObject* object, int depth) {
  if (PyTuple_CheckExact(object) && depth <= kDeepestKey && (is_fresh(object) || learn_items(object))) {
    Ref parts = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(object)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
      Ref part = key_part(PyTuple_GET_ITEM(object, i), depth + 1);
      if (!part) return {};
      PyTuple_SET_ITEM(parts.get(), i, part.release());
    }
    return parts;
  }
  const bool fixed = PyType_Check(object) ? stays_plain_class(object) : is_constant(object) && !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  if (fixed) return Ref::borrow(object);
  const bool by_identity = !PyType_Check(object) && !guards::is_tensor(object) && !guards::is_constant_like(object) && is_hashed_by_identity(object);
  return by_identity && resolve(object) && source_of(object) != kNoSource ? guards::key_place(source_of(object)) : Ref();
}

/// A call of a function that functools.lru_cache wraps, with constants: what the cache holds for them is read, and guarded, as
/// part of the cache. Calling it again is an effect: the cache counts, and keeps what was used last.
Flow Recorder::call_cached(vm::Activation& activation, CallSite& site) {
  SourceId source = source_of(site.callee);
  const std::string name = callable_name(site.callee);
  if (source == kNoSource) return cut(BreakId::k_opaque_call, name);
  std::vector<Ref> kept;
  std::vector<PyObject*> parts;
  for (PyObject* argument : site.arguments) {
    parts.push_back(kept.emplace_back(key_part(argument)).get());
    if (parts.back() == nullptr) return cut(BreakId::k_opaque_call, name);
  }
  Ref key = guards::cache_key(site.callee, site.arguments, site.arguments, site.positional, site.keyword_names);
  Ref value = Ref::borrow(key ? guards::cached_result(site.callee, key.get()) : nullptr);
  fills_cache_ = key && !value;
  const Ref places = guards::cache_key(site.callee, site.arguments, parts, site.positional, site.keyword_names);
  if (!value || !learn_external(value.get(), guards_.read(SourceKind::kCachedCall, source, 0, places.get()))) return cut(BreakId::k_opaque_call, name);
  Ref arguments = site.pack_positional(), keywords = site.pack_keywords();
  learn_fresh(arguments.get());
  if (keywords) learn_fresh(keywords.get());
  {
    UnrecordedScope unrecorded;
    Ref counted = Ref::steal(PyObject_Call(site.callee, arguments.get(), keywords.get()));
    if (!counted) return Flow::kRaise;
  }
  mutations_++;
  effects_.push_back({EffectKind::kTouchCache, Ref::borrow(site.callee), arguments, keywords});
  for (int i = 0; i < site.slots; i++) Py_XDECREF(activation.pop());
  activation.push(value.release());
  activation.pc++;
  return Flow::kResume;
}

/// A constant's truth: of an enumeration's member by the class's own code, or the enum module's.
bool Recorder::truth_is_fixed(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true;
  for (const char* text : {"__bool__", "__len__"}) {
    Ref name = Ref::steal(PyUnicode_InternFromString(text));
    PyObject* found = _PyType_Lookup(type, name.get());
    guards_.note_type_lookup(type, name.get(), found);
    if (found == nullptr) continue;
    return Py_TYPE(found) == &PyWrapperDescr_Type || is_of_module(found, "enum");
  }
  return true;
}

namespace {

const char* flag_method(int op) { return op == NB_AND ? "__and__" : op == NB_OR ? "__or__" : "__xor__"; }

}  // namespace

/// Operators on members of a flag: the enum module's own code finds a member, which stays that operator's result.
std::optional<Flow> Recorder::fold_flags(vm::Activation& activation, const Instruction& in) {
  const bool unary = in.opcode == Opcode::kUnaryInvert;
  PyObject *left = activation.peek(unary ? 1 : 2), *right = activation.peek(1);
  PyTypeObject* type = Py_TYPE(left);
  if (!guards::is_constant_like(left) || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || Py_TYPE(right) != type || PyLong_Check(left)) return std::nullopt;
  const int op = unary ? 0 : in.argument >= NB_INPLACE_ADD ? in.argument - NB_INPLACE_ADD : in.argument;
  if (!unary && op != NB_AND && op != NB_OR && op != NB_XOR) return std::nullopt;
  const std::string in_place = std::string("__i") + (flag_method(op) + 2);
  for (const char* text : {unary ? "__invert__" : flag_method(op), in_place.c_str(), "_missing_", "__new__", "__new_member__", "__class__", "_boundary_", "_value_", "_inverted_"}) {
    Ref name = Ref::steal(PyUnicode_InternFromString(text));
    PyObject* found = _PyType_Lookup(type, name.get());
    guards_.note_type_lookup(type, name.get(), found);
    bool absent_before = text == in_place || text[1] != '_';
    PyObject* function = found && (Py_TYPE(found) == &PyClassMethod_Type || Py_TYPE(found) == &PyStaticMethod_Type) ? *reinterpret_cast<PyObject**>(found + 1) : found;
    if (text == in_place ? found != nullptr : function && PyFunction_Check(function) && !is_of_module(function, "enum")) return std::nullopt;
    if (!absent_before && text[2] != 'c' && found == nullptr) return std::nullopt;
  }
  Ref result;
  {
    UnrecordedScope unrecorded;
    result = Ref::steal(unary ? PyNumber_Invert(left) : op == NB_AND ? PyNumber_And(left, right) : op == NB_OR ? PyNumber_Or(left, right) : PyNumber_Xor(left, right));
  }
  if (!result || Py_TYPE(result.get()) != type) {
    PyErr_Clear();
    return std::nullopt;
  }
  for (int i = 0; i < (unary ? 1 : 2); i++) Py_XDECREF(activation.pop());
  activation.push(result.release());
  activation.pc++;
  return Flow::kResume;
}

}  // namespace dynrun::trace
