// Host calls: print and its kind, which a replay makes again, in their place among the effects.
//
// A host call runs when the replay commits. That cannot be told from running it in its place: tensors that it shows are not
// written afterwards in the same segment, containers are copied, and nobody runs in between who could look.
// It may raise (a closed pipe): the frames that stood at the call are kept as recipes for that.

#include "guards/output.h"
#include "guards/torch_python.h"
#include "python/signals.h"
#include "trace/recorder.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <string_view>

namespace dynrun::trace {

using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

constexpr int kMaxPrintDepth = 8;
constexpr std::size_t kSurelyPrinted = 2000;  // bits: sys.set_int_max_str_digits allows no limit below 640 digits

/// A constant (or a host value) whose text C code makes: an enumeration's __str__ is Python code.
bool is_plain_constant(PyObject* object) {
  return guards::is_constant_like(object) && !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

}  // namespace

/// Whether the text of an object follows from what is guarded and from tensors in it.
bool Recorder::is_printable(PyObject* object) {
  return shows_only(object, [&](PyObject* leaf) { return is_plain_constant(leaf) || (is_late(leaf) && !is_array(leaf)) || (guards::is_plain_tensor(leaf) && resolve(leaf)); });
}

/// Whether it follows from what is guarded alone.
bool Recorder::has_constant_text(PyObject* object) {
  auto leaf = [&](PyObject* part) { return is_plain_constant(part) && !is_unsettled(part) && is_constant(part); };
  return PyAnySet_CheckExact(object) ? resolve(object) && set_shows_only(object, leaf) : shows_only(object, leaf);
}

bool Recorder::have_guarded_texts(PyObject* items, int depth) {
  const Ref list = Ref::steal(PySequence_List(items));
  if (!list) PyErr_Clear();
  return list && std::all_of(&PyList_GET_ITEM(list.get(), 0), &PyList_GET_ITEM(list.get(), 0) + PyList_GET_SIZE(list.get()), [&](PyObject* item) { return has_guarded_text(item, depth + 1); });
}

/// Whether classes of that metaclass are shown as "<class 'module.name'>", formatted or not.
static bool has_plain_text(PyTypeObject* metaclass) {
  static PyObject* const format_name = PyUnicode_InternFromString("__format__");
  return metaclass->tp_repr == PyType_Type.tp_repr && metaclass->tp_str == PyType_Type.tp_str && _PyType_Lookup(metaclass, format_name) == _PyType_Lookup(&PyType_Type, format_name);
}

/// Whether the text that C code makes of an object follows from what is guarded, or is made by Python code, which is looked on at.
/// Most kinds of objects have their address in it.
bool Recorder::has_guarded_text(PyObject* object, int depth) {
  static PyObject *const repr_name = PyUnicode_InternFromString("__repr__"), *const str_name = PyUnicode_InternFromString("__str__");
  if (depth > kMaxPrintDepth) return false;
  if (PyLong_CheckExact(object) && _PyLong_NumBits(object) > kSurelyPrinted) return false;
  if (guards::is_constant_like(object)) return true;
  if (guards::is_tensor(object)) return false;
  PyTypeObject* type = Py_TYPE(object);
  if (PyType_Check(object)) {
    auto* shown = reinterpret_cast<PyTypeObject*>(object);
    return has_plain_text(type) && learn_class_field(shown, "__name__") && learn_class_field(shown, "__qualname__") && learn_class_field(shown, "__module__");
  }
  for (PyObject* name : {str_name, repr_name}) {
    if (PyObject* method = _PyType_Lookup(type, name); (name == repr_name || depth == 0) && method && PyFunction_Check(method)) return true;
  }
  const std::string_view kind = type->tp_name;
  // What an exception holds nobody has looked into before.
  const bool container = PyTuple_Check(object) || PyList_CheckExact(object) || PyDict_CheckExact(object) || PyAnySet_CheckExact(object);
  if (container && (!resolve_deep(object, 0, true) || is_dirty(object) || written_keys_.count(object))) return false;
  if (PyTuple_Check(object) || PyList_CheckExact(object) || PyDictItems_Check(object) || PyDictKeys_Check(object) || PyDictValues_Check(object) || kind == "collections.deque")
    return have_guarded_texts(object, depth);
  if (PyAnySet_CheckExact(object)) return has_fixed_order(object) && have_guarded_texts(object, depth);
  if (PyDict_CheckExact(object) || PyODict_CheckExact(object)) return have_guarded_texts(Ref::steal(PyDict_Keys(object)).get(), depth) && have_guarded_texts(Ref::steal(PyDict_Values(object)).get(), depth);
  if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    return has_guarded_text(slice->start, depth + 1) && has_guarded_text(slice->stop, depth + 1) && has_guarded_text(slice->step, depth + 1);
  }
  if (PyExceptionInstance_Check(object) && is_fresh(object)) return have_guarded_texts(reinterpret_cast<PyBaseExceptionObject*>(object)->args, depth);
  if (PyCFunction_Check(object)) return PyCFunction_GET_SELF(object) == nullptr || PyModule_Check(PyCFunction_GET_SELF(object));
  return PyRange_Check(object) || is_number_info(object) || type == &PyMethodDescr_Type || type == &PyWrapperDescr_Type;
}

/// Whether a set, in the order that it is in, holds nothing but leaves that will do.
bool Recorder::set_shows_only(PyObject* set, const std::function<bool(PyObject*)>& leaf) {
  const Ref items = Ref::steal(PySequence_List(set));
  if (!items) return PyErr_Clear(), false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); i++) {
    if (!leaf(PyList_GET_ITEM(items.get(), i))) return false;
  }
  if (is_fresh(set)) return has_fixed_order(set);
  if (source_of(set) == kNoSource || is_dirty(set) || !set_is_plain(set)) return false;
  guards_.check_set_in_order(source_of(set), set);
  return true;
}

/// Whether an object is a leaf that will do, or a built-in container of such.
bool Recorder::shows_only(PyObject* object, const std::function<bool(PyObject*)>& leaf, int depth) {
  if (leaf(object)) return true;
  if (depth > kMaxPrintDepth || guards::is_constant_like(object) || !resolve(object)) return false;
  if (PyTuple_CheckExact(object) || PyList_CheckExact(object)) {
    if (!resolve_deep(object, 0, true) || is_dirty(object)) return false;
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
      PyObject* item = PyTuple_Check(object) ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
      if (!shows_only(item, leaf, depth + 1)) return false;
    }
    return true;
  }
  if (!PyDict_CheckExact(object) || !resolve_deep(object, 0, true) || written_keys_.count(object)) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(object, &at, &key, &value)) {
    if (!is_plain_constant(key) || !shows_only(value, leaf, depth + 1)) return false;
  }
  return true;
}

/// The containers anew, around the same tensors: what the program does to them later does not show.
Ref Recorder::copy_structure(PyObject* object) {
  if (is_late(object)) return Ref::borrow(object);
  if (PyTuple_CheckExact(object)) {
    Ref copy = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(object)));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++)
      PyTuple_SET_ITEM(copy.get(), i, copy_structure(PyTuple_GET_ITEM(object, i)).release());
    learn_fresh(copy.get());
    return copy;
  }
  if (PyList_CheckExact(object)) {
    Ref copy = Ref::steal(PyList_New(PyList_GET_SIZE(object)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++)
      PyList_SET_ITEM(copy.get(), i, copy_structure(PyList_GET_ITEM(object, i)).release());
    learn_fresh(copy.get());
    return copy;
  }
  if (PyDict_CheckExact(object)) {
    Ref copy = Ref::steal(PyDict_New());
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &at, &key, &value)) PyDict_SetItem(copy.get(), key, copy_structure(value).get());
    learn_fresh(copy.get());
    return copy;
  }
  if (guards::is_plain_tensor(object)) operators_.freeze(guards::tensor_of(object));
  return Ref::borrow(object);
}

/// What stands for an argument in the replayed call: a constant, a tensor, or containers of these. Null: it cannot be one.
Ref Recorder::host_argument(PyObject* argument) { return is_printable(argument) ? copy_structure(argument) : Ref(); }

bool Recorder::learn_stream(PyObject* stream) {
  SourceId source = resolve(stream) ? source_of(stream) : kNoSource;
  if (source == kNoSource || !guards::is_output_stream(stream)) return false;
  guards_.check_output_stream(source);
  return true;
}

/// sys.stdout or sys.stderr.
bool Recorder::learn_standard_stream(const char* name) {
  static PyObject* sys_name = PyUnicode_InternFromString("sys");
  Ref stream_name = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* sys = PyDict_GetItemWithError(modules, sys_name);
  if (sys == nullptr || !PyModule_Check(sys)) return false;
  SourceId table = guards_.read(SourceKind::kModules, kNoSource, 0, nullptr);
  if (!learn_external(sys, guards_.read(SourceKind::kDictItem, table, 0, sys_name))) return false;
  PyObject* dict = PyModule_GetDict(sys);
  PyObject* stream = PyDict_GetItemWithError(dict, stream_name.get());
  if (stream == nullptr || was_written(dict, stream_name.get())) return false;
  SourceId items = guards_.read(SourceKind::kModuleDict, source_of(sys), 0, nullptr);
  if (!learn_external(stream, guards_.read(SourceKind::kDictItem, items, 0, stream_name.get()))) return false;
  return stream == Py_None || learn_stream(stream);
}

/// Should the call raise, what earlier effects stored must be what the rebuilt frames hold: constants and outside objects are.
bool Recorder::effects_are_plain() {
  auto plain = [this](const Ref& object) { return !object || guards::is_constant_like(object.get()) || source_of(object.get()) != kNoSource; };
  for (const PendingEffect& effect : effects_) {
    bool makes_no_state = effect.kind == EffectKind::kHostCall || effect.kind == EffectKind::kTouchCache;
    if (!makes_no_state && !(plain(effect.target) && plain(effect.key) && plain(effect.value))) return false;
  }
  return true;
}

/// The frames at the call, as recipes of their own: values as they are now.
bool Recorder::host_snapshot(vm::Activation& activation, HostCall& call) {
  auto memo = std::exchange(recipe_memo_, {});
  auto outputs = std::exchange(output_index_, {});
  auto failure = recipe_failure_;
  recipe_outputs_ = &call.values;
  recipe_handling_ = &call.handling;
  std::vector<vm::Activation*> chain;
  for (vm::Activation* one = &activation; one; one = one->caller) {
    chain.insert(chain.begin(), one);
    if (one == base_) break;
  }
  bool made = true;
  for (std::size_t i = 0; made && i < chain.size(); i++) {
    FrameRecipe frame;
    made = frame_recipe(chain[i], static_cast<int>(i), nullptr, frame);
    // Frames that are only shown are pushed before anything is computed.
    bool outside = frame.function < 0 || segment_->recipes.nodes[static_cast<std::size_t>(frame.function)].kind == RecipeKind::kSource;
    if (call.looks_at_frames && !outside) made = false;
    call.frames.push_back(std::move(frame));
  }
  made = made && note_handled(chain, call.handling);
  recipe_outputs_ = nullptr;
  recipe_handling_ = nullptr;
  recipe_memo_ = std::move(memo);
  output_index_ = std::move(outputs);
  recipe_failure_ = failure;
  call.kept_frames = kept_;
  call.nodes = operators_.graph()->nodes.size();
  call.grad = c10::GradMode::is_enabled();
  return made;
}

/// Makes the call now and notes it as an effect. The arguments of `site` are what the replayed call gets.
Flow Recorder::host_call(vm::Activation& activation, CallSite& site, bool looks_at_frames) {
  const std::string name = callable_name(site.callee);
  bool simple = vm::current_machine() == &machine_ && (handlers_entered_ == 0 || !looks_at_frames) && context_sets_.empty() && !segment_->sets_autocast &&
                c10::InferenceMode::is_enabled() == entry_state_.inference;
  if (!simple) return cut(BreakId::k_opaque_call, name);
  if (!effects_are_plain()) return cut(BreakId::k_opaque_call, name + ", behind a store of a new value into a global or an object");
  if (operators_.wrote_outside()) return cut(BreakId::k_write_then_raise, name);
  HostCall call;
  call.looks_at_frames = looks_at_frames;
  if (!host_snapshot(activation, call)) return cut(BreakId::k_opaque_call, name);
  Ref arguments = site.pack_positional(), keywords = site.pack_keywords();
  learn_fresh(arguments.get());
  if (keywords) learn_fresh(keywords.get());
  {
    UnrecordedScope unrecorded;
    Ref result = Ref::steal(PyObject_Call(site.callee, arguments.get(), keywords.get()));
    if (!result) return Flow::kRaise;
  }
  operators_.note_output();
  mutations_++;
  effects_.push_back({EffectKind::kHostCall, Ref::borrow(site.callee), arguments, keywords, static_cast<std::int32_t>(segment_->host_calls.size())});
  segment_->host_calls.push_back(std::move(call));
  for (int i = 0; i < site.slots; i++) Py_XDECREF(activation.pop());
  activation.push(Py_NewRef(Py_None));
  activation.pc++;
  return Flow::kResume;
}

Flow Recorder::print(vm::Activation& activation, CallSite& site) {
  std::vector<Ref> shown(site.arguments.size());
  bool named_stream = false;
  for (std::size_t i = 0; i < site.arguments.size(); i++) {
    auto keyword = static_cast<Py_ssize_t>(i) - site.positional;
    PyObject* name = keyword >= 0 ? PyTuple_GET_ITEM(site.keyword_names, keyword) : nullptr;
    PyObject* argument = site.arguments[i];
    if (name && PyUnicode_CompareWithASCIIString(name, "file") == 0 && argument != Py_None) {
      named_stream = true;
      if (!learn_stream(argument)) return cut(BreakId::k_opaque_call, "print to a " + std::string(Py_TYPE(argument)->tp_name));
      shown[i] = Ref::borrow(argument);
      continue;
    }
    if (!name) shown[i] = host_argument(argument);
    else if (is_plain_constant(argument)) shown[i] = Ref::borrow(argument);
    if (!shown[i]) return cut(BreakId::k_opaque_call, "print of a " + std::string(Py_TYPE(argument)->tp_name));
  }
  if (!named_stream && !learn_standard_stream("stdout")) return cut(BreakId::k_opaque_call, "print to a stream of another kind");
  CallSite host = site;
  for (std::size_t i = 0; i < shown.size(); i++) host.arguments[i] = shown[i].get();
  return host_call(activation, host, false);
}

/// A function of a module of the standard library, as it was loaded: replaced, it is the program's own code.
bool Recorder::learn_module_functions(const char* module_name, std::initializer_list<const char*> names) {
  Ref text = Ref::steal(PyUnicode_InternFromString(module_name));
  PyObject* module = PyDict_GetItemWithError(PyImport_GetModuleDict(), text.get());
  if (module == nullptr || !PyModule_Check(module)) return false;
  SourceId table = guards_.read(SourceKind::kModules, kNoSource, 0, nullptr);
  if (!learn_external(module, guards_.read(SourceKind::kDictItem, table, 0, text.get()))) return false;
  SourceId items = guards_.read(SourceKind::kModuleDict, source_of(module), 0, nullptr);
  for (const char* name : names) {
    Ref key = Ref::steal(PyUnicode_InternFromString(name));
    PyObject* function = PyDict_GetItemWithError(PyModule_GetDict(module), key.get());
    if (function == nullptr || was_written(PyModule_GetDict(module), key.get())) return false;
    bool genuine = PyType_Check(function) || (PyFunction_Check(function) && PyUnicode_CompareWithASCIIString(reinterpret_cast<PyFunctionObject*>(function)->func_module, module_name) == 0);
    if (!genuine || !learn_external(function, guards_.read(SourceKind::kDictItem, items, 0, key.get()))) return false;
    if (PyType_Check(function)) guards_.require_unchanged(reinterpret_cast<PyTypeObject*>(function));
  }
  return true;
}

/// warnings.warn: what it does follows from the filters and from who calls it, which it asks for itself.
Flow Recorder::warn(vm::Activation& activation, CallSite& site) {
  CallSite host = site;
  std::vector<Ref> shown;
  for (PyObject*& argument : host.arguments) {
    if (!PyType_Check(argument)) {
      shown.push_back(host_argument(argument));
      if (!shown.back()) return cut(BreakId::k_opaque_call, "warn");
      argument = shown.back().get();
    } else if (!resolve(argument)) {
      return cut(BreakId::k_opaque_call, "warn");
    }
  }
  bool plain = learn_module_functions("warnings", {"showwarning", "formatwarning", "_showwarnmsg", "_showwarnmsg_impl", "_formatwarnmsg", "_formatwarnmsg_impl"});
  if (!plain || !learn_standard_stream("stderr")) return cut(BreakId::k_opaque_call, "warn");
  return host_call(activation, host, true);
}

namespace {

/// Whether the function is that method of logging.Logger.
bool is_logger_method(PyObject* function, const char* method) {
  if (PyUnicode_CompareWithASCIIString(reinterpret_cast<PyFunctionObject*>(function)->func_name, method) != 0) return false;
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), "logging");
  PyObject* type = module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "Logger") : nullptr;
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  return type && PyType_Check(type) && _PyType_Lookup(reinterpret_cast<PyTypeObject*>(type), name.get()) == function;
}

}  // namespace

/// Whether the call is logging.Logger._log, which all of a logger's methods come to once the level is enabled.
bool Recorder::is_log_call(const CallSite& site) {
  return is_logger_method(site.callee, "_log") && !site.arguments.empty() && source_of(site.arguments[0]) != kNoSource;
}

/// A logger keeps the answers to whether a level is enabled, and finds each under a lock. The first one is found here, so that the
/// code that is recorded only looks it up.
void Recorder::find_level(const CallSite& site) {
  if (site.arguments.size() != 2 || site.keyword_names || !is_logger_method(site.callee, "isEnabledFor")) return;
  PyObject *logger = site.arguments[0], *level = site.arguments[1];
  if (!PyLong_CheckExact(level) || !guards::is_plain_logger(logger)) return;
  PyObject* fields = guards::instance_dict(logger);
  PyObject* known = fields ? PyDict_GetItemString(fields, "_cache") : nullptr;
  if (!known || !PyDict_CheckExact(known) || PyDict_Contains(known, level) != 0) return;
  const python::HeldSignals held;
  if (!Ref::steal(PyObject_CallFunctionObjArgs(site.callee, logger, level, nullptr))) PyErr_Clear();
}

Flow Recorder::log(vm::Activation& activation, CallSite& site) {
  PyObject* logger = site.arguments[0];
  if (!guards::is_plain_logger(logger)) return cut(BreakId::k_opaque_call, "a logger with handlers or filters of its own");
  CallSite host = site;
  std::vector<Ref> shown;
  for (std::size_t i = 1; i < site.arguments.size(); i++) {
    shown.push_back(host_argument(site.arguments[i]));
    if (!shown.back()) return cut(BreakId::k_opaque_call, "logging a " + std::string(Py_TYPE(site.arguments[i])->tp_name));
    host.arguments[i] = shown.back().get();
  }
  guards_.check_plain_logger(source_of(logger));
  guards_.require_unchanged(Py_TYPE(logger));
  if (!learn_module_functions("logging", {"Handler", "StreamHandler", "FileHandler", "Formatter", "LogRecord"})) return cut(BreakId::k_opaque_call, "logging");
  return host_call(activation, host, true);
}

}  // namespace dynrun::trace
