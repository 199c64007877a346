// Calls of C functions whose doing is known: what they read, write and give.

#include "guards/torch_python.h"
#include "python/compat.h"
#include "python/text.h"
#include "trace/recorder.h"

#include <algorithm>

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

/// Whether the frame is that of torch.Tensor.__hash__, called by C code.
bool is_tensor_hash(vm::Activation& activation) {
  static PyObject* code = [] {
    Ref hash = import_path("torch:Tensor.__hash__");
    return hash && PyFunction_Check(hash.get()) ? Py_NewRef(PyFunction_GET_CODE(hash.get())) : nullptr;
  }();
  return activation.caller == nullptr && reinterpret_cast<PyObject*>(activation.frame->code) == code;
}

/// What `graph_break(msg)` was given to say.
std::string reason_given(const std::vector<PyObject*>& arguments) { return !arguments.empty() && PyUnicode_CheckExact(arguments[0]) ? python::text_of(arguments[0]) : ""; }

}  // namespace

struct Recorder::ModelledCall {
  vm::Activation& activation;
  const Instruction& in;
  CallSite& site;
  PyObject *self, *callable;
  std::string name;
  std::size_t first;  // of the arguments behind self
  PyObject* argument(std::size_t i) const { return i < site.arguments.size() ? site.arguments[i] : nullptr; }
};

Flow Recorder::opaque(const ModelledCall& call) { return cut(BreakId::k_opaque_call, call.name); }
Flow Recorder::go_on(const ModelledCall& call, Then then) { return prepare(call.activation, call.in, call.site.slots, then); }

/// list.append.
Flow Recorder::model_append(const ModelledCall& call) {
  if (!call.self || !PyList_Check(call.self) || call.site.arguments.size() != call.first + 1) return opaque(call);
  if (!resolve(call.self)) return cut(BreakId::k_unknown_object, call.name);
  // C code reads a subclass's items without being seen.
  if (!PyList_CheckExact(call.self) && !(is_fresh(call.self) && resolve_deep(call.argument(call.first)))) return opaque(call);
  mutations_++;
  if (source_of(call.self) != kNoSource) {
    dirty_.insert(call.self);
    effects_.push_back({EffectKind::kAppend, Ref::borrow(call.self), Ref(), Ref::borrow(call.argument(call.first))});
  }
  return go_on(call, Then::kNothing);
}

/// dict.pop of a key in a dict from outside.
Flow Recorder::pop_outside_item(const ModelledCall& call, PyObject* key) {
  PyObject* dict = call.self;
  if (!guards::is_constant_like(key) || is_dirty(dict)) return opaque(call);
  const SourceId source = source_of(dict);
  PyObject* value = PyDict_GetItemWithError(dict, key);
  const bool written = was_written(dict, key);
  if (value == nullptr) {
    PyErr_Clear();
    if (call.site.arguments.back() == key) return cut(BreakId::k_raise, "a key that is not there");
    if (!written) guards_.check_absent(source, key);
    return go_on(call);
  }
  if (!written && !learn_external(value, guards_.read(SourceKind::kDictItem, source, 0, key))) return cut(BreakId::k_unknown_object, call.name);
  mutations_++;
  written_keys_[dict].push_back(Ref::borrow(key));
  effects_.push_back({EffectKind::kDeleteItem, Ref::borrow(dict), Ref::borrow(key), Ref()});
  return go_on(call);
}

bool Recorder::is_reset(PyObject* variable) const {
  return std::any_of(effects_.begin(), effects_.end(), [&](const PendingEffect& effect) { return effect.kind == EffectKind::kResetContext && effect.target.get() == variable; });
}

/// variable.reset(token), where the variable was set before the segment began.
Flow Recorder::reset_by_outside_token(const ModelledCall& call, PyObject* token) {
  PyObject* variable = call.self;
  const bool set_since = std::any_of(context_sets_.begin(), context_sets_.end(), [&](const ContextSet& set) { return set.variable.get() == variable; });
  const bool resettable = token && resolve(variable) && source_of(variable) != kNoSource && source_of(token) != kNoSource && dynrun_resets(token, variable);
  if (!resettable || set_since || is_reset(variable)) return opaque(call);
  guards_.check_is(source_of(variable), variable);
  guards_.check_token(source_of(token), variable);
  mutations_++;
  effects_.push_back({EffectKind::kResetContext, Ref::borrow(variable), Ref(), Ref::borrow(token)});
  return go_on(call, Then::kNothing);
}

Flow Recorder::model_dict_pop(const ModelledCall& call) {
  const std::size_t given = call.site.arguments.size() - std::min(call.site.arguments.size(), call.first);
  if (call.self && resolve(call.self) && source_of(call.self) != kNoSource && PyDict_CheckExact(call.self) && !call.site.keyword_names && given >= 1 && given <= 2)
    return pop_outside_item(call, call.argument(call.first));
  return model_write(call);
}

/// set.add and set.discard on a set from outside: nothing, where its items are guarded to be such, or an effect.
Flow Recorder::model_set_item(const ModelledCall& call) {
  PyObject *set = call.self, *item = call.argument(call.first);
  if (!PySet_CheckExact(set) || !guards::is_constant_like(item) || !is_constant(item) || (Py_TYPE(item)->tp_flags & Py_TPFLAGS_HEAPTYPE)) return opaque(call);
  const bool adds = call.name == "set.add", has = PySet_Contains(set, item) == 1;
  if (!is_dirty(set) && has == adds && set_is_plain(set)) {
    guards_.check_set(source_of(set), set);
    return go_on(call, Then::kNothing);
  }
  mutations_++;
  dirty_.insert(set);
  effects_.push_back({adds ? EffectKind::kAddToSet : EffectKind::kDiscard, Ref::borrow(set), Ref::borrow(item), Ref()});
  return go_on(call, Then::kNothing);
}

/// A method that changes an object which the segment made, or in one of a few ways one from outside.
Flow Recorder::model_write(const ModelledCall& call) {
  const bool one_item = (call.name == "set.add" || call.name == "set.discard") && call.self && call.site.arguments.size() == call.first + 1 && !call.site.keyword_names;
  if (one_item && resolve(call.self) && source_of(call.self) != kNoSource) return model_set_item(call);
  const bool extends = call.name == "list.extend" && call.self && call.site.arguments.size() == call.first + 1 && !call.site.keyword_names;
  if (extends && resolve(call.self) && source_of(call.self) != kNoSource && append_all(call.self, call.argument(call.first))) return go_on(call, Then::kNothing);
  if (!call.self || !resolve(call.self) || !is_fresh(call.self)) return cut(BreakId::k_opaque_call, "an outside container changed by " + call.name);
  if ((call.name == "list.sort" || call.name == "list.remove") && !resolve_deep(call.self)) return opaque(call);  // items are compared
  for (PyObject* item : call.site.arguments) {
    if (!(call.name == "dict.update" ? resolve_to_copy(item) : resolve_deep(item))) return cut(BreakId::k_unknown_object, call.name);
    if (is_fresh(item) && item != call.self && Py_TYPE(item)->tp_iternext) mutations_++;
  }
  if (PyAnySet_Check(call.self)) note_set_written(call.self, call.name == "set.add" && call.site.arguments.size() == call.first + 1 ? call.argument(call.first) : nullptr);
  mutations_++;
  return go_on(call);
}

Flow Recorder::model_setattr(const ModelledCall& call) {
  if (call.site.arguments.size() != call.first + 2 && call.site.arguments.size() != 3) return opaque(call);
  PyObject* object = call.self && !PyModule_Check(call.self) ? call.self : call.argument(0);
  PyObject *attribute = call.site.arguments[call.site.arguments.size() - 2], *value = call.site.arguments.back();
  if (!PyUnicode_CheckExact(attribute) || !resolve(object)) return opaque(call);
  bool by_setattr = call.name == "setattr";
  if (by_setattr && !PyFunction_Check(object) && !plain_setattr(Py_TYPE(object), attribute)) {
    if (PyObject* setter = python_method(object, "__setattr__"))
      return push(call.activation, call.in, setter, {object, attribute, value}, 3, nullptr, call.site.slots, vm::Continuation::kPushResult);
    return opaque(call);
  }
  return store_attribute(object, attribute, value) ? go_on(call, Then::kNothing) : opaque(call);
}

Flow Recorder::model_delattr(const ModelledCall& call) {
  PyObject *object = call.argument(0), *name = call.argument(1);
  if (!name || !PyUnicode_CheckExact(name) || !resolve(object)) return opaque(call);
  if (!has_plain_delattr(object)) {
    if (PyObject* deleter = python_method(object, "__delattr__"))
      return push(call.activation, call.in, deleter, {object, name}, 2, nullptr, call.site.slots, vm::Continuation::kPushResult);
    return opaque(call);
  }
  return delete_attribute(object, name) ? go_on(call, Then::kNothing) : opaque(call);
}

Flow Recorder::model_getattr(const ModelledCall& call) {
  PyObject *object = call.argument(0), *attribute = call.argument(1);
  if (!attribute || !PyUnicode_CheckExact(attribute)) return opaque(call);
  PyObject* getter = nullptr;
  SourceId source = kNoSource;
  switch (look_up(object, attribute, &getter, &source)) {
    case Attribute::kValue:
    case Attribute::kRun:
    case Attribute::kMissing:
    case Attribute::kCallGetter:
    case Attribute::kCallDescriptor:
    case Attribute::kCallGetattr: {
      Flow flow = go_on(call);
      pending_.passes_through = records_sizes();  // Python code of the class gets the object and the name
      return flow;
    }
    case Attribute::kUnknown: break;
  }
  return cut(BreakId::k_opaque_call, call.name + " of a " + Py_TYPE(object)->tp_name);
}

Flow Recorder::model_generic_getattr(const ModelledCall& call) {
  PyObject* attribute = call.argument(call.site.arguments.size() - 1);
  PyObject* getter = nullptr;
  SourceId source = kNoSource;
  if (!call.self || !attribute || !PyUnicode_CheckExact(attribute) || !resolve(call.self) || !(Py_TYPE(call.self)->tp_flags & Py_TPFLAGS_HEAPTYPE) || guards::is_tensor(call.self))
    return opaque(call);
  if (look_up_instance(call.self, attribute, &getter, &source, true) == Attribute::kUnknown)
    return cut(BreakId::k_opaque_call, std::string(Py_TYPE(call.self)->tp_name) + "." + python::text_of(attribute));
  Flow flow = go_on(call);
  pending_.passes_through = records_sizes();
  return flow;
}

Flow Recorder::model_isinstance(const ModelledCall& call) {
  for (std::size_t i = 0; i < call.site.arguments.size(); i++) {
    if (!(i == 0 ? resolve(call.site.arguments[i]) : resolve_deep(call.site.arguments[i]))) return cut(BreakId::k_unknown_object, call.name);
  }
  Flow flow = go_on(call, Then::kNothing);
  pending_.passes_through = true;  // a class's own __instancecheck__ gets the object as it is
  return flow;
}

/// next() of an iterator that the segment made.
Flow Recorder::model_next(const ModelledCall& call) {
  if (!call.argument(0) || !is_fresh(call.argument(0))) return opaque(call);
  mutations_++;
  return go_on(call);
}

/// dict.get and dict.__getitem__.
Flow Recorder::model_dict_get(const ModelledCall& call) {
  PyObject* key = call.argument(call.first);
  const bool class_key = key && is_class_key(key);
  if (!call.self || !key || !PyDict_Check(call.self) || !resolve(call.self) || !(class_key || is_constant(key))) return opaque(call);
  if (SourceId source = source_of(call.self); source != kNoSource && !was_written(call.self, key)) {
    PyObject* value = PyDict_GetItemWithError(call.self, key);
    if (value == nullptr && !PyDict_CheckExact(call.self) && call.name.find("__getitem__") != std::string::npos) return opaque(call);  // __missing__
    if (value == nullptr) guards_.check_absent(source, key);
    else if (!learn_external(value, guards_.read(SourceKind::kDictItem, source, 0, key))) return opaque(call);
  }
  return go_on(call);
}

/// object.__new__ of a plain class.
Flow Recorder::model_new(const ModelledCall& call) {
  auto* type = call.argument(0) && PyType_Check(call.argument(0)) ? reinterpret_cast<PyTypeObject*>(call.argument(0)) : nullptr;
  bool plain = type && call.site.arguments.size() == 1 && type->tp_new != nullptr && (type->tp_flags & Py_TPFLAGS_HEAPTYPE);
  return plain ? go_on(call, Then::kFreshTop) : opaque(call);
}

Flow Recorder::model_context_get(const ModelledCall& call) {
  if (!call.self || call.site.arguments.size() != call.first || !resolve(call.self)) return opaque(call);
  for (const ContextSet& set : context_sets_) {
    if (set.variable.get() == call.self) return go_on(call);
  }
  if (is_reset(call.self)) return cut(BreakId::k_read_after_write, call.name);
  SourceId source = source_of(call.self);
  PyObject* value = nullptr;
  if (source == kNoSource || PyContextVar_Get(call.self, nullptr, &value) < 0 || value == nullptr) return opaque(call);
  Ref keep = Ref::steal(value);
  return learn_external(value, guards_.read(SourceKind::kContextValue, source, 0, nullptr)) ? go_on(call)
                                                                                          : opaque(call);
}

Flow Recorder::model_context_set(const ModelledCall& call) {
  if (!call.self || call.site.arguments.size() != call.first + 1 || call.site.keyword_names || !resolve(call.self) || call.site.slots != 3 || is_reset(call.self)) return opaque(call);
  mutations_++;
  Flow flow = go_on(call, Then::kContextToken);
  pending_.count = pending_.operands[0] && Py_TYPE(pending_.operands[0].get()) != &PyMethodDescr_Type ? 0 : 1;
  return flow;
}

Flow Recorder::model_context_reset(const ModelledCall& call) {
  PyObject* token = call.argument(call.first);
  bool last = !context_sets_.empty() && context_sets_.back().token.get() == token;
  if (!call.self || call.site.slots != 3) return opaque(call);
  if (!last) return reset_by_outside_token(call, token);
  mutations_++;
  context_sets_.pop_back();
  return go_on(call, Then::kNothing);
}

/// id(): an address. The segment keeps the object, so that it stays that object's.
Flow Recorder::model_id(const ModelledCall& call) {
  PyObject* object = call.argument(0);
  SourceId source = object ? source_of(object) : kNoSource;
  // Only C code that fills a table sees what Tensor.__hash__ gives.
  if (object && guards::is_plain_tensor(object) && vm::current_machine() != &machine_ && is_tensor_hash(call.activation)) return go_on(call);
  if (source == kNoSource || !PyFunction_Check(object)) return opaque(call);
  guards_.check_is(source, object);
  return go_on(call);
}

Flow Recorder::model_hash(const ModelledCall& call) {
  // Text hashes alike as long as the process lives, and so does the segment.
  PyObject* object = call.argument(0);
  bool by_value = object && is_hashed_by_value(object) && (!PyTuple_Check(object) || resolve_deep(object));
  bool by_method = object && !guards::is_constant_like(object) && !guards::is_tensor(object) && python_method(object, "__hash__");
  return by_value || by_method ? go_on(call) : opaque(call);
}

Flow Recorder::model_new_tuple(const ModelledCall& call) {
  auto* type = call.argument(0) && PyType_Check(call.argument(0)) ? reinterpret_cast<PyTypeObject*>(call.argument(0)) : nullptr;
  if (!type || !PyType_IsSubtype(type, &PyTuple_Type) || call.site.arguments.size() > 2 || call.site.keyword_names) return opaque(call);
  if (call.site.arguments.size() == 2 && !resolve_deep(call.argument(1), 0, records_sizes() && holds_hosts(call.argument(1)))) return cut(BreakId::k_unknown_object, call.name);
  if (call.site.arguments.size() == 2 && is_fresh(call.argument(1)) && PyIter_Check(call.argument(1))) mutations_++;
  return go_on(call, Then::kNewTuple);
}

/// A function that changes its first argument: operator.iadd and its like, heapq.heappush.
Flow Recorder::model_write_first(const ModelledCall& call) {
  const bool in_place = call.name[0] == 'i' && call.site.arguments.size() == 2;
  bool tensor = false;
  if (in_place && operand_ok(call.argument(0), &tensor) && operand_ok(call.argument(1), &tensor) && (tensor || is_constant(call.argument(0))))
    return go_on(call);
  if (!call.argument(0) || !is_fresh(call.argument(0))) return opaque(call);
  for (PyObject* item : call.site.arguments) {
    if (!resolve_deep(item)) return cut(BreakId::k_unknown_object, call.name);
  }
  mutations_++;
  return go_on(call);
}

Flow Recorder::model_generator(const ModelledCall& call) {
  if (!call.self || !is_fresh(call.self)) return opaque(call);
  mutations_++;
  return go_on(call);
}

Flow Recorder::model_globals(const ModelledCall& call) {
  SourceId source = globals_source(call.activation);
  bool known = source != kNoSource && PyDict_CheckExact(call.activation.frame->globals) && call.site.arguments.empty();
  return known && learn_external(call.activation.frame->globals, source) ? go_on(call) : opaque(call);
}

/// vars() of an object.
Flow Recorder::model_vars(const ModelledCall& call) {
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  PyObject* getter = nullptr;
  SourceId source = kNoSource;
  bool found = call.site.arguments.size() == 1 && resolve(call.argument(0)) && look_up(call.argument(0), dict_name, &getter, &source) == Attribute::kValue;
  return found ? go_on(call) : opaque(call);
}

/// What libtorch's state says, of constants: asked again on each replay.
Flow Recorder::model_state(const ModelledCall& call) {
  std::vector<HostId> operands;
  for (PyObject* given : call.site.arguments) {
    if (!guards::is_constant_like(given)) return opaque(call);
    operands.push_back(host_.constant(given));
  }
  const Ref now = call.site.keyword_names ? Ref() : Ref::steal(PyObject_Vectorcall(call.callable, call.site.arguments.data(), call.site.arguments.size(), nullptr));
  if (!now && !call.site.keyword_names) {
    PyErr_Clear();
    return go_on(call);  // it raises: there is no such thing here
  }
  if (!now || !guards::is_constant_like(now.get())) return opaque(call);
  host_.require_equal(host_.compute(HostKind::kCall, 0, std::move(operands), call.callable, now.get()), now.get());
  return go_on(call);
}

/// `with torch.cuda.device(d)` of the GPU that is the current one: nothing changes, as long as each replay begins with the same one.
Flow Recorder::model_set_device(const ModelledCall& call) {
  static const python::Kept current = import_path("torch._C:_cuda_getDevice");
  if (!current || call.site.arguments.size() != 1 || call.site.keyword_names) return opaque(call);
  PyObject* wanted = call.site.arguments[0];
  const Ref now = Ref::steal(PyObject_CallNoArgs(current.get()));
  PyErr_Clear();
  if (!now || !PyLong_CheckExact(wanted) || PyObject_RichCompareBool(wanted, now.get(), Py_EQ) != 1) return opaque(call);
  host_.require_equal(host_.compute(HostKind::kCall, 0, {}, current.get(), now.get()), now.get());
  return go_on(call);
}

Flow Recorder::call_modelled(vm::Activation& activation, const Instruction& in, CallSite& site, Model model, PyObject* self,
                             PyObject* callable) {
  const bool bound = self != nullptr && (site.arguments.empty() || site.arguments[0] != self);
  const ModelledCall call{activation, in, site, self, callable, callable_name(callable), bound ? std::size_t{0} : std::size_t{1}};
  // Names and keys are constants; what is only passed on is not looked at.
  for (std::size_t i = 0; i < site.arguments.size(); i++) {
    bool passed_on = model == Model::kListAppend || model == Model::kIsInstance || model == Model::kPrint || model == Model::kWarn || (model == Model::kSetAttribute && i + 1 == site.arguments.size());
    if (!passed_on) is_constant(site.arguments[i]);
  }
  switch (model) {
    case Model::kListAppend: return model_append(call);
    case Model::kDictPop: return model_dict_pop(call);
    case Model::kWriteFresh: return model_write(call);
    case Model::kDeleteAttribute: return model_delattr(call);
    case Model::kSetAttribute: return model_setattr(call);
    case Model::kGetAttribute: return model_getattr(call);
    case Model::kGenericGetAttribute: return model_generic_getattr(call);
    case Model::kIsInstance: return model_isinstance(call);
    case Model::kSetGrad: return go_on(call, Then::kNothing);
    case Model::kIterNext: return model_next(call);
    case Model::kDictGet: return model_dict_get(call);
    case Model::kNew: return model_new(call);
    case Model::kContextGet: return model_context_get(call);
    case Model::kContextSet: return model_context_set(call);
    case Model::kContextReset: return model_context_reset(call);
    case Model::kIdentity: return model_id(call);
    case Model::kHash: return model_hash(call);
    case Model::kPrint: return print(call.activation, call.site);
    case Model::kWarn: return warn(call.activation, call.site);
    case Model::kAutocast: return set_autocast(call.activation, call.in, call.site);
    case Model::kNewTuple: return model_new_tuple(call);
    case Model::kWriteFirst: return model_write_first(call);
    case Model::kGenerator: return model_generator(call);
    case Model::kHandled: return handled_exception(call.activation, call.in, call.site);
    case Model::kBreak: return cut(BreakId::k_asked_for, reason_given(call.site.arguments));
    case Model::kScope: return cut(BreakId::k_scope);
    case Model::kDisable: return cut(BreakId::k_disabled);
    case Model::kGlobals: return model_globals(call);
    case Model::kVariables: return model_vars(call);
    case Model::kState: return model_state(call);
    case Model::kSetDevice: return model_set_device(call);
    case Model::kMetadata:
    case Model::kNone: break;
  }
  return opaque(call);
}

}  // namespace dynrun::trace
