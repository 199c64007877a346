// State of the thread that recorded code switches, and marks for profilers.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <ATen/autocast_mode.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>

#include <string_view>

namespace dynrun::trace {

using guards::kNoSource;
using python::Ref;

namespace {

/// The functions of torch.profiler.record_function that only tell a profiler something. Borrowed; empty before torch is there.
const std::vector<PyObject*>& profiler_marks() {
  static const std::vector<PyObject*> functions = [] {
    std::vector<PyObject*> found;
    for (const char* name : {"__init__", "__enter__", "__exit__"}) {
      Ref function = import_path(std::string("torch.autograd.profiler:record_function.") + name);
      if (function && PyFunction_Check(function.get())) found.push_back(function.release());
    }
    return found;
  }();
  return functions;
}

}  // namespace

/// Whether a call is a mark for profilers on a fresh object while nobody listens (which is part of the guarded state).
bool Recorder::is_profiler_mark(PyObject* function, const std::vector<PyObject*>& arguments) {
  if (entry_state_.profiled || arguments.empty() || !is_fresh(arguments[0])) return false;
  for (PyObject* mark : profiler_marks()) {
    if (mark == function) return true;
  }
  return false;
}

/// Runs such a call unrecorded: a replay makes the mark again only where the object is wanted at its exit.
Flow Recorder::run_profiler_mark(vm::Activation& activation, PyObject* function, const std::vector<PyObject*>& arguments, Py_ssize_t positional,
                                 PyObject* keyword_names, int slots, vm::Continuation continuation, PyObject* stolen_held, bool null_below) {
  Ref held = Ref::steal(stolen_held), keep = Ref::borrow(function), self = Ref::borrow(arguments[0]), result;
  for (PyObject* argument : arguments) is_constant(argument);
  const bool inference = is_inference_switch(function, arguments);
  {
    std::optional<UnrecordedScope> unrecorded;
    std::optional<PlainKeysScope> plain;
    if (inference) plain.emplace();
    else unrecorded.emplace();
    result = Ref::steal(PyObject_Vectorcall(function, arguments.data(), static_cast<std::size_t>(positional), keyword_names));
  }
  if (!result) return Flow::kRaise;
  mutations_++;
  if (inference) note_inference_switch(self.get());
  static PyObject* const record_name = PyUnicode_InternFromString("record");
  PyObject* dict = guards::instance_dict(self.get());
  PyObject* record = dict ? PyDict_GetItemWithError(dict, record_name) : nullptr;
  if (record && record != Py_None && !find(record)) {
    learn_fresh(record);
    profiler_records_.emplace(record, self);
  }
  for (int i = 0; i < slots; i++) Py_XDECREF(activation.pop());
  if (null_below) activation.push(nullptr);
  if (continuation == vm::Continuation::kDropPushHeld) activation.push(held.release());
  else if (continuation == vm::Continuation::kPushResult) activation.push(result.release());
  activation.pc++;
  return Flow::kResume;
}

namespace {

/// torch._C._InferenceMode
PyObject* inference_context_type() {
  static const python::Kept type = import_path("torch._C:_InferenceMode");
  return type.get();
}

PyObject* context_of(PyObject* manager) {
  static PyObject* const name = PyUnicode_InternFromString("_inference_mode_context");
  PyObject* dict = guards::instance_dict(manager);
  return dict ? PyDict_GetItemWithError(dict, name) : nullptr;
}

/// torch._C._InferenceMode(mode), entered.
PyObject* entered_context(PyObject* type, PyObject* mode) {
  Ref context = Ref::steal(PyObject_CallOneArg(type, mode));
  Ref entered = Ref::steal(context ? PyObject_CallMethod(context.get(), "__enter__", nullptr) : nullptr);
  return entered ? context.release() : nullptr;
}

}  // namespace

bool Recorder::is_inference_switch(PyObject* function, const std::vector<PyObject*>& arguments) {
  static const python::Kept type = import_path("torch.autograd.grad_mode:inference_mode");
  static const python::Kept enter = import_path("torch.autograd.grad_mode:inference_mode.__enter__");
  static const python::Kept leave = import_path("torch.autograd.grad_mode:inference_mode.__exit__");
  if (function != enter.get() && function != leave.get()) return false;
  if (arguments.empty() || !is_fresh(arguments[0]) || reinterpret_cast<PyObject*>(Py_TYPE(arguments[0])) != type.get()) return false;
  if (vm::current_machine() != &machine_) return false;
  return function == enter.get() ? arguments.size() == 1 : arguments.size() == 4 && context_of(arguments[0]) && inference_contexts_.count(context_of(arguments[0]));
}

bool Recorder::inference_entered() const {
  return std::any_of(inference_contexts_.begin(), inference_contexts_.end(), [](const auto& context) { return context.second; });
}

/// A context that is rebuilt at the exit remembers the entry's modes: it may be entered where these are on, and no other is.
bool Recorder::may_enter_inference() const {
  return !inference_entered() && c10::GradMode::is_enabled() == entry_state_.grad && c10::InferenceMode::is_enabled() == entry_state_.inference && !segment_->sets_autocast;
}

void Recorder::note_inference_switch(PyObject* manager) {
  PyObject* context = context_of(manager);
  auto known = inference_contexts_.find(context);
  const bool leaves = known != inference_contexts_.end() && known->second;
  learn_fresh(context);
  inference_contexts_[context] = !leaves;
}

bool Recorder::is_inference_context(PyObject* object) const {
  // They are not held: another object may lie at a dead one's address.
  return inference_contexts_.count(object) != 0 && reinterpret_cast<PyObject*>(Py_TYPE(object)) == inference_context_type();
}

RecipeId Recorder::recipe_inference_context(PyObject* context) {
  static PyMethodDef definition{"entered_context", entered_context, METH_O, nullptr};
  PyObject* const type = inference_context_type();
  static const python::Kept enter = Ref::steal(PyCFunction_New(&definition, type));
  const bool entered = inference_contexts_.at(context);
  RecipeId mode = recipe(entered ? PyBool_FromLong(c10::InferenceMode::is_enabled()) : Py_True);
  if (entered) inference_rebuilt_ = true;
  return segment_->recipes.add({RecipeKind::kCall, 0, Ref::borrow(entered ? enter.get() : type), {mode}, {}});
}

bool Recorder::inference_mode_is_kept() const { return inference_rebuilt_ || c10::InferenceMode::is_enabled() == entry_state_.inference; }

/// torch.ops.profiler._record_function_enter_new(name, args), called again.
RecipeId Recorder::recipe_profiler_record(PyObject* record) {
  auto found = profiler_records_.find(record);
  PyObject* dict = found == profiler_records_.end() ? nullptr : guards::instance_dict(found->second.get());
  static const python::Kept enter = import_path("torch:ops.profiler._record_function_enter_new");
  PyObject *name = dict ? PyDict_GetItemString(dict, "name") : nullptr, *arguments = dict ? PyDict_GetItemString(dict, "args") : nullptr;
  if (!enter || !name || !arguments) return kNullRecipe;
  RecipeId first = recipe(name), second = recipe(arguments);
  if (first < 0 || second < 0) return kNullRecipe;
  return segment_->recipes.add({RecipeKind::kCall, 0, Ref::borrow(enter.get()), {first, second}, {}});
}

/// Collections that C code makes (collections.deque, collections.defaultdict), and views of dicts.
RecipeId Recorder::recipe_collection(PyObject* object) {
  auto* type = reinterpret_cast<PyObject*>(Py_TYPE(object));
  std::string_view name = Py_TYPE(object)->tp_name;
  if (name == "collections.defaultdict") {
    Ref factory = Ref::steal(PyObject_GetAttrString(object, "default_factory"));
    RecipeId first = factory ? recipe(factory.get()) : kNullRecipe, items = first < 0 ? kNullRecipe : recipe_dict(object);
    return items < 0 ? kNullRecipe : segment_->recipes.add({RecipeKind::kCall, 0, Ref::borrow(type), {first, items}, {}});
  }
  if (PyDictKeys_Check(object) || PyDictItems_Check(object) || PyDictValues_Check(object)) {
    PyTypeObject& made_by = name.rfind("odict", 0) == 0 ? PyODict_Type : PyDict_Type;
    const char* method = PyDictKeys_Check(object) ? "keys" : PyDictItems_Check(object) ? "items" : "values";
    const RecipeId dict = recipe(reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(object)->dv_dict));
    return dict < 0 ? kNullRecipe : segment_->recipes.add({RecipeKind::kCall, 0, Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&made_by), method)), {dict}, {}});
  }
  if (name != "collections.deque") return kNullRecipe;
  Ref items = Ref::steal(PySequence_List(object)), length = Ref::steal(PyObject_GetAttrString(object, "maxlen"));
  if (!items || !length) {
    PyErr_Clear();
    return kNullRecipe;
  }
  RecipeNode list{RecipeKind::kList, 0, Ref(), {}, {}};
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); i++) {
    list.children.push_back(recipe(PyList_GET_ITEM(items.get(), i)));
    if (list.children.back() < 0) return kNullRecipe;
  }
  RecipeId first = segment_->recipes.add(std::move(list)), second = recipe(length.get());
  return second < 0 ? kNullRecipe : segment_->recipes.add({RecipeKind::kCall, 0, Ref::borrow(type), {first, second}, {}});
}

/// The setters of autocast. What they leave behind is set again at the segment's exit.
Flow Recorder::set_autocast(vm::Activation& activation, const bytecode::Instruction& in, CallSite& site) {
  for (PyObject* argument : site.arguments) {
    bool plain = is_constant(argument) && (!PyUnicode_Check(argument) || PyUnicode_CompareWithASCIIString(argument, "cpu") == 0 || PyUnicode_CompareWithASCIIString(argument, "cuda") == 0);
    if (!plain) return cut(BreakId::k_opaque_call, callable_name(site.callee));
  }
  segment_->sets_autocast = true;
  const std::string name = callable_name(site.callee);
  const bool ends_region = name.find("autocast_decrement_nesting") != std::string::npos && TorchState::now().autocast_nesting == 1;
  if (ends_region || name.find("clear_autocast_cache") != std::string::npos) {
    operators_.forget_casts();
    segment_->casts_left.clears = true;
  }
  mutations_++;
  return prepare(activation, in, site.slots, Then::kLearnTop);
}

}  // namespace dynrun::trace
