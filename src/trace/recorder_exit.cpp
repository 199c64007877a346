// How a recording ends: cuts, recipes for live values, effects, and the finished segment.

#include "guards/torch_python.h"
#include "python/compat.h"
#include "python/numbers.h"
#include "trace/recorder.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <frameobject.h>
#include <structmember.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using python::Ref;

Flow Recorder::prepare(vm::Activation& activation, const Instruction& in, int operands, Then then) {
  pending_ = Pending{};
  pending_.then = then;
  pending_.guarded = true;
  pending_.activation = &activation;
  pending_.pc = activation.pc;
  pending_.depth = activation.stack_depth();
  pending_.mark = operators_.mark();
  operators_.start_instruction();
  pending_.effects = effects_.size();
  pending_.mutations = mutations_before_;
  for (int i = operands; i >= 1; i--) pending_.operands.push_back(Ref::borrow(activation.peek(i)));
  note_versions();
  note_compared_by(activation, in);
  operators_.set_source(source_line(activation, in));
  return Flow::kRun;
}

/// An instruction that is cut off afterwards has run, and may have written what the segment hands out.
void Recorder::note_versions() {
  auto note = [this](PyObject* object) {
    if (object == nullptr || !guards::is_tensor(object)) return;
    const at::Tensor& tensor = guards::tensor_of(object);
    if (tensor.defined() && !tensor.is_inference()) pending_.versions.emplace_back(tensor, static_cast<std::uint32_t>(tensor._version()));
  };
  for (const Ref& operand : pending_.operands) {
    if (operand && (PyList_CheckExact(operand.get()) || PyTuple_CheckExact(operand.get()))) {
      PyObject** items = PySequence_Fast_ITEMS(operand.get());
      for (Py_ssize_t i = 0; i < Py_SIZE(operand.get()); i++) note(items[i]);
    } else {
      note(operand.get());
    }
  }
}

/// The version counter as it was where the segment ends. Views share their base's.
std::uint32_t Recorder::version_at_end(const at::Tensor& tensor) const {
  auto version = static_cast<std::uint32_t>(tensor._version());
  for (const auto& [written, added] : written_by_cut_) {
    if (tensor.has_storage() && written.has_storage() && tensor.is_alias_of(written)) return version - std::min(version, added);
  }
  return version;
}

/// The segment ends before the instruction at the top. Inside C code that called Python again it cannot: poison.
Flow Recorder::cut(BreakId id, std::string detail) {
  if (PyErr_Occurred()) PyErr_Clear();
  note_break(id, std::move(detail));
  if (vm::current_machine() != &machine_) {
    python::Frame* called = vm::current_machine()->base->frame;
    if (called->owner == python::kOwnedByGenerator) broken_generator_ = Ref::borrow(reinterpret_cast<PyObject*>(called->code));
    poisoned_ = true;
    return Flow::kRun;
  }
  vm::Activation* top = machine_.top;
  return finish_at(top, nullptr, top->pc) ? Flow::kCut : Flow::kDropped;
}

/// The segment has become long enough: the next one begins at this very instruction.
Flow Recorder::cut_here(const char* detail) {
  Flow flow = cut(BreakId::k_size_cap, detail);
  if (flow != Flow::kCut) return flow;
  segment_->continues = true;
  return Flow::kCutHere;
}

RecipeId Recorder::recipe_dict(PyObject* items, bool is_object) {
  Ref type = Ref::borrow(PyODict_CheckExact(items) ? reinterpret_cast<PyObject*>(&PyODict_Type) : nullptr);
  RecipeNode node{RecipeKind::kDict, 0, type, {}, {}};
  RecipeId id = kNullRecipe;
  if (is_object) {
    id = segment_->recipes.add(node);
    recipe_memo_[items] = id;  // it may hold itself
  }
  if (PyODict_CheckExact(items) || (PyODict_Check(items))) {
    Ref list = Ref::steal(PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyODict_Type), "items", "O", items));
    Ref pairs = list ? Ref::steal(PySequence_List(list.get())) : Ref();
    for (Py_ssize_t i = 0; pairs && i < PyList_GET_SIZE(pairs.get()); i++) {
      PyObject* pair = PyList_GET_ITEM(pairs.get(), i);
      if (is_hashed_by_program(PyTuple_GET_ITEM(pair, 0))) return kNullRecipe;
      RecipeId key = recipe(PyTuple_GET_ITEM(pair, 0)), value = recipe(PyTuple_GET_ITEM(pair, 1));
      if (key == kNullRecipe || value == kNullRecipe) return kNullRecipe;
      node.children.push_back(key), node.children.push_back(value);
    }
    PyErr_Clear();
  } else {
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(items, &at, &key, &value)) {
      if (is_hashed_by_program(key)) return kNullRecipe;
      RecipeId k = recipe(key), v = recipe(value);
      if (k == kNullRecipe || v == kNullRecipe) return kNullRecipe;
      node.children.push_back(k), node.children.push_back(v);
    }
  }
  if (!is_object) return segment_->recipes.add(std::move(node));
  segment_->recipes.nodes[static_cast<std::size_t>(id)] = std::move(node);
  return id;
}

RecipeId Recorder::recipe_instance(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyTypeObject* base = builtin_base(type);
  bool plain = base == &PyBaseObject_Type || base == &PyDict_Type || base == &PyList_Type || type->tp_new == PyDict_Type.tp_new;
  if (!(is_namespace(type) || (type->tp_flags & Py_TPFLAGS_HEAPTYPE && plain)) || source_of(reinterpret_cast<PyObject*>(type)) == kNoSource) return kNullRecipe;
  RecipeId id = segment_->recipes.add({RecipeKind::kInstance, 0, Ref::borrow(reinterpret_cast<PyObject*>(type)), {}, {}});
  recipe_memo_[object] = id;
  std::vector<RecipeId> children{kNullRecipe, kNullRecipe};
  std::vector<Ref> members;
  if (PyObject* dict = guards::instance_dict(object)) {
    auto memo = recipe_memo_.find(dict);
    children[0] = memo != recipe_memo_.end() ? memo->second : recipe_dict(dict);
    if (children[0] == kNullRecipe) return kNullRecipe;
    recipe_memo_[dict] = children[0];
  }
  if (PyDict_Check(object)) {
    children[1] = recipe_dict(object);
    if (children[1] == kNullRecipe) return kNullRecipe;
  }
  if (PyList_Check(object)) {
    RecipeNode items{RecipeKind::kList, 0, Ref(), {}, {}};
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++) {
      items.children.push_back(recipe(PyList_GET_ITEM(object, i)));
      if (items.children.back() == kNullRecipe) return kNullRecipe;
    }
    children[1] = segment_->recipes.add(std::move(items));
  }
  PyObject* mro = type->tp_mro;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(mro); i++) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE)) continue;
    Ref dict = Ref::steal(PyType_GetDict(base));
    Py_ssize_t at = 0;
    PyObject *key, *member;
    while (PyDict_Next(dict.get(), &at, &key, &member)) {
      if (Py_TYPE(member) != &PyMemberDescr_Type) continue;
      PyMemberDef* definition = reinterpret_cast<PyMemberDescrObject*>(member)->d_member;
      if (definition->type != T_OBJECT_EX) continue;
      PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + definition->offset);
      RecipeId child = value ? recipe(value) : kNullRecipe;
      if (value && child == kNullRecipe) return kNullRecipe;
      members.push_back(Ref::borrow(member));
      children.push_back(child);
    }
  }
  RecipeNode& node = segment_->recipes.nodes[static_cast<std::size_t>(id)];
  node.children = std::move(children);
  node.names = std::move(members);
  return id;
}

RecipeId Recorder::recipe_container(PyObject* object) {
  RecipeKind kind = PyList_CheckExact(object)        ? RecipeKind::kList
                    : PyTuple_Check(object)          ? RecipeKind::kTuple
                    : PySet_CheckExact(object)       ? RecipeKind::kSet
                                                     : RecipeKind::kFrozenSet;
  Ref type;
  if (PyTuple_Check(object) && !PyTuple_CheckExact(object)) {
    type = Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object)));
    if (PyObject_HasAttrString(object, "n_sequence_fields")) kind = RecipeKind::kStructSequence;
    else if (guards::instance_dict(object) != nullptr) return kNullRecipe;
  }
  // Where the items of a set lie depends on the order in which they came, which the set does not tell.
  std::vector<Ref> items;
  if (PyAnySet_CheckExact(object)) {
    std::optional<std::vector<Ref>> added = items_to_add(object);
    if (!added) return kNullRecipe;
    items = std::move(*added);
  } else {
    const Ref list = Ref::steal(PySequence_List(object));
    for (Py_ssize_t i = 0; list && i < PyList_GET_SIZE(list.get()); i++) items.push_back(Ref::borrow(PyList_GET_ITEM(list.get(), i)));
  }
  bool is_mutable = kind == RecipeKind::kList || kind == RecipeKind::kSet;
  RecipeId id = kNullRecipe;
  if (is_mutable) {
    id = segment_->recipes.add({kind, 0, Ref(), {}, {}});
    recipe_memo_[object] = id;
  }
  std::vector<RecipeId> children;
  for (const Ref& item : items) {
    RecipeId child = recipe(item.get());
    if (child == kNullRecipe) return kNullRecipe;
    children.push_back(child);
  }
  if (!is_mutable) return segment_->recipes.add({kind, 0, type, std::move(children), {}});
  segment_->recipes.nodes[static_cast<std::size_t>(id)].children = std::move(children);
  return id;
}

RecipeId Recorder::recipe_function(PyObject* object) {
  auto* function = reinterpret_cast<PyFunctionObject*>(object);
  RecipeNode node{RecipeKind::kFunction, 0, Ref::borrow(function->func_code), {}, {}};
  // The globals are those of some code that is known.
  SourceId globals = kNoSource;
  for (vm::Activation* activation = machine_.top; activation && globals == kNoSource; activation = activation->caller) {
    if (activation->frame->globals == function->func_globals) globals = globals_source(*activation);
    if (activation == base_) break;
  }
  if (globals == kNoSource) return kNullRecipe;
  const RecipeId id = segment_->recipes.add(std::move(node));
  recipe_memo_[object] = id;
  node = RecipeNode{RecipeKind::kFunction, 0, Ref::borrow(function->func_code), {}, {}};
  node.children.push_back(segment_->recipes.add({RecipeKind::kSource, globals, Ref(), {}, {}}));
  for (PyObject* part : {function->func_defaults, function->func_kwdefaults, function->func_closure, function->func_annotations, function->func_module, function->func_doc}) {
    RecipeId child = part ? recipe(part) : kNullRecipe;
    if (part && child == kNullRecipe) return kNullRecipe;
    node.children.push_back(child);
  }
  if (function->func_dict && find(function->func_dict)) return kNullRecipe;  // somebody else has it too
  if (function->func_typeparams && PyTuple_GET_SIZE(function->func_typeparams) > 0) return kNullRecipe;
  bool attributes = function->func_dict && PyDict_GET_SIZE(function->func_dict) > 0;
  node.children.push_back(attributes ? recipe_dict(function->func_dict) : kNullRecipe);
  if (attributes && node.children.back() == kNullRecipe) return kNullRecipe;
  node.names = {Ref::borrow(function->func_name), Ref::borrow(function->func_qualname)};
  segment_->recipes.nodes[static_cast<std::size_t>(id)] = std::move(node);
  return id;
}

/// An iterator of C code that says by itself what call makes another one at the same place.
RecipeId Recorder::recipe_of_reduced(PyObject* object) {
  Ref reduced = Ref::steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) != 2 ||
      PyTuple_GET_ITEM(reduced.get(), 0) != reinterpret_cast<PyObject*>(Py_TYPE(object))) {
    PyErr_Clear();
    return kNullRecipe;
  }
  PyObject* arguments = PyTuple_GET_ITEM(reduced.get(), 1);
  std::vector<RecipeId> children;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(arguments); i++) {
    PyObject* argument = PyTuple_GET_ITEM(arguments, i);
    // Iterators that nobody else has seen are part of this one.
    bool own = !guards::is_constant_like(argument) && !find(argument) && PyIter_Check(argument);
    children.push_back(own ? recipe_iterator(argument) : recipe(argument));
    if (children.back() == kNullRecipe) return kNullRecipe;
  }
  return segment_->recipes.add({RecipeKind::kCall, 0, Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))), std::move(children), {}});
}

RecipeId Recorder::recipe_dict_iterator(PyObject* object) {
  PyObject* dict = nullptr;
  Py_ssize_t given = 0;
  // One that is through, or would say that the dict has changed, is not made again.
  if (!dynrun_dict_iterator(object, &dict, &given) || given >= PyDict_GET_SIZE(dict) || !PyDict_CheckExact(dict) || written_keys_.count(dict) != 0) return kNullRecipe;
  const char* view = Py_TYPE(object) == &PyDictIterKey_Type ? "keys" : Py_TYPE(object) == &PyDictIterValue_Type ? "values" : "items";
  Ref method = Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyDict_Type), view));
  const RecipeId child = recipe(dict);
  if (child == kNullRecipe || !method) return kNullRecipe;
  return segment_->recipes.add({RecipeKind::kDictIterator, static_cast<std::int32_t>(given), method, {child}, {}});
}

RecipeId Recorder::recipe_iterator(PyObject* object) {
  std::string name = Py_TYPE(object)->tp_name;
  if (name == "enumerate" || name == "zip" || name == "map" || name == "filter") return recipe_of_reduced(object);
  if (Py_TYPE(object) == &PyDictIterKey_Type || Py_TYPE(object) == &PyDictIterValue_Type || Py_TYPE(object) == &PyDictIterItem_Type) return recipe_dict_iterator(object);
  if (name != "list_iterator" && name != "tuple_iterator" && name != "range_iterator" && name != "str_ascii_iterator") return kNullRecipe;
  Ref reduced = Ref::steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  if (!reduced || !PyTuple_Check(reduced.get()) || PyTuple_GET_SIZE(reduced.get()) < 2) {
    PyErr_Clear();
    return kNullRecipe;
  }
  PyObject* container = PyTuple_GET_ITEM(PyTuple_GET_ITEM(reduced.get(), 1), 0);
  RecipeId child;
  if (Py_TYPE(container) == &PyRange_Type) child = segment_->recipes.add({RecipeKind::kConstant, 0, Ref::borrow(container), {}, {}});
  else if (!find(container) && Py_SIZE(container) == 0) child = segment_->recipes.add({RecipeKind::kConstant, 0, Ref::steal(PyTuple_New(0)), {}, {}});
  else child = recipe(container);
  if (child == kNullRecipe) return kNullRecipe;
  // A range's iterator gives the rest of the range and no state.
  Ref state = PyTuple_GET_SIZE(reduced.get()) > 2 ? Ref::borrow(PyTuple_GET_ITEM(reduced.get(), 2)) : Ref();
  if (state.get() == Py_None) state = Ref();
  return segment_->recipes.add({RecipeKind::kIterator, 0, state, {child}, {}});
}

/// An exception that recorded code made. Of those that keep more than BaseException does, nothing is known.
RecipeId Recorder::recipe_exception(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  bool heap = type->tp_flags & Py_TPFLAGS_HEAPTYPE;
  auto* base = reinterpret_cast<PyTypeObject*>(PyExc_BaseException);
  const auto added = type->tp_basicsize - base->tp_basicsize;
  // A class of Python code adds weak references, or slots, which are not looked at.
  bool plain = type->tp_new == base->tp_new && (added == 0 || (heap && type->tp_weaklistoffset > 0 && added == static_cast<Py_ssize_t>(sizeof(PyObject*))));
  if (!plain || (heap && source_of(reinterpret_cast<PyObject*>(type)) == kNoSource)) return kNullRecipe;
  auto* exception = reinterpret_cast<PyBaseExceptionObject*>(object);
  // What was raised while something outside was being handled would have that as its context.
  if (exception->traceback != nullptr && exception->context == nullptr) require_nothing_handled();
  RecipeId id = segment_->recipes.add({RecipeKind::kException, exception->suppress_context, Ref::borrow(reinterpret_cast<PyObject*>(type)), {}, {}});
  recipe_memo_[object] = id;
  std::vector<RecipeId> children;
  if (!find(exception->args)) learn_fresh(exception->args);
  for (PyObject* part : {exception->args, exception->dict, exception->cause, exception->context}) {
    bool dict = part && part == exception->dict;
    children.push_back(part ? (dict ? recipe_dict(part) : recipe(part)) : kNullRecipe);
    if (part && children.back() == kNullRecipe) return kNullRecipe;
  }
  segment_->recipes.nodes[static_cast<std::size_t>(id)].children = std::move(children);
  return recipe_traceback(object, id) ? id : kNullRecipe;
}

/// A traceback is rebuilt where the frames that it goes through stand at the exit.
bool Recorder::recipe_traceback(PyObject* exception, RecipeId id) {
  Ref traceback = Ref::steal(PyException_GetTraceback(exception));
  if (!traceback) return true;
  if (recipe_handling_ == nullptr) return false;
  std::vector<vm::Activation*> chain;
  for (vm::Activation* activation = machine_.top; activation; activation = activation->caller) {
    chain.insert(chain.begin(), activation);
    if (activation == base_) break;
  }
  Handling::Traceback raised{id, {}};
  for (auto* entry = reinterpret_cast<PyTracebackObject*>(traceback.get()); entry; entry = entry->tb_next) {
    auto at = std::find_if(chain.begin(), chain.end(), [&](vm::Activation* one) { return one->frame->frame_object == entry->tb_frame; });
    if (at == chain.end()) return false;
    raised.places.push_back({static_cast<int>(at - chain.begin()), entry->tb_lasti, PyCode_Addr2Line((*at)->code->object, entry->tb_lasti)});
  }
  recipe_handling_->tracebacks.push_back(std::move(raised));
  return true;
}

/// The exception that code which the segment entered is handling. False: it cannot be told.
bool Recorder::note_handled(const std::vector<vm::Activation*>& chain, Handling& handling) {
  if (handlers_entered_ == 0) return true;
  // A generator has a state of its own.
  for (vm::Activation* activation : chain) {
    if (activation->frame->owner == python::kOwnedByGenerator) return false;
  }
  // Else what was being handled would have to be put back behind it, and be its context.
  require_nothing_handled();
  Ref handled = Ref::steal(PyErr_GetHandledException());
  handling.exception = handled ? recipe(handled.get()) : kNullRecipe;
  return handling.exception != kNullRecipe;
}

/// A generator that recorded code made and that has not finished. One that runs is filled with its frame.
RecipeId Recorder::recipe_generator(PyObject* object) {
  auto* frame = reinterpret_cast<python::Frame*>(dynrun_generator_frame(object));
  if (frame == nullptr || frame->locals != nullptr || dynrun_generator_handles(object)) return kNullRecipe;
  bool running = dynrun_is_running(object);
  RecipeId id = segment_->recipes.add({RecipeKind::kGenerator, -1, Ref::borrow(dynrun_is_suspended(object) ? Py_True : Py_False), {}, {}});
  recipe_memo_[object] = id;
  std::vector<RecipeId> children{recipe(frame->function)};
  if (children[0] == kNullRecipe) return kNullRecipe;
  for (int i = 0; !running && i < frame->stack_top; i++) {
    PyObject* value = frame->localsplus[i];
    children.push_back(value ? recipe(value) : kNullRecipe);
    if (value && children.back() == kNullRecipe) return kNullRecipe;
  }
  RecipeNode& node = segment_->recipes.nodes[static_cast<std::size_t>(id)];
  node.children = std::move(children);
  if (!running) node.index = static_cast<std::int32_t>(frame->previous_instruction - reinterpret_cast<std::uint16_t*>(frame->code->co_code_adaptive));
  return id;
}

namespace {

/// Whether the attribute of that name is that very method, so that it can be read again.
bool is_own_attribute(PyObject* self, PyObject* method, PyObject* name) {
  if (Py_TYPE(self)->tp_getattro != (PyType_Check(self) ? PyType_Type.tp_getattro : PyObject_GenericGetAttr)) return false;
  Ref found = Ref::steal(PyObject_GetAttr(self, name));
  PyErr_Clear();
  return found && PyCFunction_Check(found.get()) && PyCFunction_GET_SELF(found.get()) == self &&
         reinterpret_cast<PyCFunctionObject*>(found.get())->m_ml == reinterpret_cast<PyCFunctionObject*>(method)->m_ml;
}

}  // namespace

/// A C method bound to an object or a class. Bound by super() it may be another than the one that the object's attribute is.
RecipeId Recorder::recipe_builtin_method(PyObject* object) {
  PyObject* self = PyCFunction_GET_SELF(object);
  PyMethodDef* method = reinterpret_cast<PyCFunctionObject*>(object)->m_ml;
  const RecipeId child = recipe(self);
  if (child == kNullRecipe) return kNullRecipe;
  RecipeBook& book = segment_->recipes;
  if (PyObject* found = descriptor_in(Py_TYPE(self)->tp_mro, method); found && Py_TYPE(found) == &PyMethodDescr_Type)
    return book.add({RecipeKind::kCall, 0, Ref::steal(PyObject_GetAttrString(found, "__get__")), {child}, {}});
  PyObject* of_class = PyType_Check(self) ? descriptor_in(reinterpret_cast<PyTypeObject*>(self)->tp_mro, method) : nullptr;
  if (of_class && Py_TYPE(of_class) == &PyClassMethodDescr_Type)
    return book.add({RecipeKind::kCall, 0, Ref::steal(PyObject_GetAttrString(of_class, "__get__")), {recipe(Py_None), child}, {}});
  Ref name = Ref::steal(PyUnicode_FromString(method->ml_name));
  return name && is_own_attribute(self, object, name.get()) ? book.add({RecipeKind::kBuiltinMethod, 0, name, {child}, {}}) : kNullRecipe;
}

/// `super().__setitem__` and the like: a slot wrapper bound to an object.
RecipeId Recorder::recipe_method_wrapper(PyObject* object) {
  Ref self = Ref::steal(PyObject_GetAttrString(object, "__self__"));
  Ref name = Ref::steal(PyObject_GetAttrString(object, "__name__"));
  Ref owner = Ref::steal(PyObject_GetAttrString(object, "__objclass__"));
  PyErr_Clear();
  if (!self || !name || !owner || !PyType_Check(owner.get())) return kNullRecipe;
  PyObject* wrapper = _PyType_Lookup(reinterpret_cast<PyTypeObject*>(owner.get()), name.get());
  if (wrapper == nullptr || Py_TYPE(wrapper) != &PyWrapperDescr_Type || (reinterpret_cast<PyTypeObject*>(owner.get())->tp_flags & Py_TPFLAGS_HEAPTYPE)) return kNullRecipe;
  const RecipeId child = recipe(self.get());
  if (child == kNullRecipe) return kNullRecipe;
  return segment_->recipes.add({RecipeKind::kCall, 0, Ref::steal(PyObject_GetAttrString(wrapper, "__get__")), {child}, {}});
}

/// Whether recorded code set all attributes that the tensor has of the program's own.
bool Recorder::attributes_are_effects(PyObject* tensor) const {
  PyObject* attributes = guards::instance_dict(tensor);
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (attributes && PyDict_Next(attributes, &at, &key, &value)) {
    auto sets = [&](const PendingEffect& effect) { return effect.kind == EffectKind::kSetAttribute && effect.target.get() == tensor && PyUnicode_Compare(effect.key.get(), key) == 0; };
    if (!PyUnicode_Check(key) || std::none_of(effects_.begin(), effects_.end(), sets)) return false;
  }
  return true;
}

/// A number or text: the object that was read, where it came from outside. One that came twice has to be one object again.
RecipeId Recorder::recipe_constant(PyObject* object) {
  auto outside = outside_constants_.find(object);
  if (outside == outside_constants_.end() || python::is_small_int(object)) return segment_->recipes.add({RecipeKind::kConstant, 0, Ref::borrow(object), {}, {}});
  const std::vector<guards::SourceId>& sources = outside->second.second;
  for (std::size_t i = 1; i < sources.size(); i++) guards_.check_same(sources[i], sources[0], true);
  return segment_->recipes.add({RecipeKind::kSource, sources[0], Ref(), {}, {}});
}

/// kNullRecipe when the object cannot be rebuilt; `recipe_failure_` then says which.
RecipeId Recorder::recipe(PyObject* object) {
  auto memo = recipe_memo_.find(object);
  if (memo != recipe_memo_.end()) return memo->second;
  if (!recipes_begun_.insert(object).second) return kNullRecipe;  // it holds itself, and is made of its parts
  const RecipeId id = make_recipe(object);
  recipes_begun_.erase(object);
  if (id == kNullRecipe) {
    if (recipe_failure_.empty()) recipe_failure_ = Py_TYPE(object)->tp_name;
    return id;
  }
  recipe_memo_[object] = id;
  return id;
}

RecipeId Recorder::make_recipe(PyObject* object) {
  RecipeBook& book = segment_->recipes;
  RecipeId id = kNullRecipe;
  if (is_late(object)) {
    id = recipe_late(object);
  } else if (is_host(object)) {
    id = book.add({RecipeKind::kHost, host_of(object), Ref(), {}, {}});
  } else if (is_open_size(object)) {
    id = recipe_container(object);
  } else if (guards::is_constant_like(object)) {
    id = recipe_constant(object);
  } else if (resolve(object) && source_of(object) != kNoSource) {
    id = book.add({RecipeKind::kSource, source_of(object), Ref(), {}, {}});
  } else if (guards::is_plain_tensor(object)) {
    graph::ValueId value = operators_.find(guards::tensor_of(object));
    if (value != graph::kNoValue && attributes_are_effects(object)) {
      auto [at, fresh] = output_index_.try_emplace(value, static_cast<std::int32_t>(output_index_.size()));
      if (fresh) (recipe_outputs_ ? *recipe_outputs_ : operators_.graph()->outputs).push_back(value);
      id = book.add({RecipeKind::kOutput, at->second, Ref(), {}, {}});
    }
  } else if (!is_fresh(object)) {
    id = kNullRecipe;
  } else if (PyTuple_Check(object) || PyList_CheckExact(object) || PyAnySet_CheckExact(object)) {
    id = recipe_container(object);
  } else if (Py_TYPE(object) == &PyBaseObject_Type || PyWeakref_CheckRefExact(object)) {
    RecipeNode node{RecipeKind::kCall, 0, Ref::borrow(reinterpret_cast<PyObject*>(Py_TYPE(object))), {}, {}};
    if (PyWeakref_CheckRefExact(object)) node.children.push_back(recipe(PyWeakref_GET_OBJECT(object)));
    if (node.children.empty() || node.children[0] != kNullRecipe) id = book.add(std::move(node));
  } else if (PyDict_CheckExact(object) || PyODict_CheckExact(object)) {
    id = recipe_dict(object, true);
  } else if (PyMethod_Check(object)) {
    RecipeId function = recipe(PyMethod_GET_FUNCTION(object)), self = recipe(PyMethod_GET_SELF(object));
    if (function != kNullRecipe && self != kNullRecipe) id = book.add({RecipeKind::kMethod, 0, Ref(), {function, self}, {}});
  } else if (PyCFunction_Check(object) && PyCFunction_GET_SELF(object) && !PyModule_Check(PyCFunction_GET_SELF(object))) {
    id = recipe_builtin_method(object);
  } else if (Py_TYPE(object) == &_PyMethodWrapper_Type) {
    id = recipe_method_wrapper(object);
  } else if (PyCell_Check(object)) {
    id = book.add({RecipeKind::kCell, 0, Ref(), {kNullRecipe}, {}});
    recipe_memo_[object] = id;
    if (PyObject* contents = PyCell_GET(object)) {
      RecipeId child = recipe(contents);
      if (child == kNullRecipe) return kNullRecipe;
      book.nodes[static_cast<std::size_t>(id)].children[0] = child;
    }
  } else if (PyFunction_Check(object)) {
    id = recipe_function(object);
  } else if (PyType_Check(object)) {
    id = recipe_class(object);
  } else if (PySlice_Check(object)) {
    auto* slice = reinterpret_cast<PySliceObject*>(object);
    RecipeId a = recipe(slice->start), b = recipe(slice->stop), c = recipe(slice->step);
    if (a >= 0 && b >= 0 && c >= 0) id = book.add({RecipeKind::kSlice, 0, Ref(), {a, b, c}, {}});
  } else if (Py_TYPE(object) == &PyRange_Type || is_number_info(object)) {
    id = book.add({RecipeKind::kConstant, 0, Ref::borrow(object), {}, {}});
  } else if (Py_TYPE(object) == &PyContextToken_Type) {
    for (const ContextSet& set : context_sets_) {
      if (set.token.get() != object) continue;
      RecipeId variable = recipe(set.variable.get()), value = recipe(set.value.get());
      if (variable >= 0 && value >= 0) id = book.add({RecipeKind::kContextToken, 0, Ref(), {variable, value}, {}});
    }
  } else if (is_inference_context(object)) {
    id = recipe_inference_context(object);
  } else if (profiler_records_.count(object)) {
    id = recipe_profiler_record(object);
  } else if (is_plain_temporary(object) && !PyIter_Check(object) && !PyMethod_Check(object)) {
    id = recipe_collection(object);
  } else if (PyExceptionInstance_Check(object)) {
    id = recipe_exception(object);
  } else if (PyGen_CheckExact(object)) {
    id = recipe_generator(object);
  } else if (PyIter_Check(object)) {
    id = recipe_iterator(object);
  } else {
    id = recipe_instance(object);
  }
  return id;
}

bool Recorder::frame_recipe(vm::Activation* activation, int depth, const Pending* ran, FrameRecipe& out) {
  bool kept = depth < kept_;
  if (!kept) {
    out.function = recipe(activation->frame->function);
    if (out.function == kNullRecipe) return false;
    if (activation->frame->locals != nullptr) return false;
    out.resumption = activation->resumption;
    if (activation->resumption != vm::Resumption::kNone) {
      out.generator = recipe(dynrun_generator_of(activation->frame));
      if (out.generator == kNullRecipe) return false;
    }
  }
  const EntrySlots* slots = kept ? &entry_[static_cast<std::size_t>(depth)] : nullptr;
  for (int i = 0; i < activation->code->locals_count; i++) {
    PyObject* value = activation->locals()[i];
    RecipeId id = kNullRecipe;
    if (slots && !slots->written[static_cast<std::size_t>(i)]) id = kKeepRecipe;
    else if (value != nullptr && (id = recipe(value)) == kNullRecipe) return false;
    out.locals.push_back(id);
  }
  auto add = [&](PyObject* value) {
    RecipeId id = value ? recipe(value) : kNullRecipe;
    if (value && id == kNullRecipe) return false;
    out.stack.push_back(id);
    return true;
  };
  PyObject** end = ran ? activation->stack_base() + ran->depth - static_cast<int>(ran->operands.size()) : activation->stack_pointer;
  for (PyObject** slot = activation->stack_base(); slot < end; slot++) {
    if (!add(*slot)) return false;
  }
  if (ran) {
    for (const Ref& operand : ran->operands) {
      if (!add(operand.get())) return false;
    }
  }
  out.pc = activation->pc;
  out.continuation = activation->continuation;
  if (activation->held && (out.held = recipe(activation->held)) == kNullRecipe) return false;
  return true;
}

/// Ends the segment with frames: the top one at `pc`, with the stack of before the instruction `ran`, if that has run since.
bool Recorder::finish_at(vm::Activation* top, const Pending* ran, std::int32_t pc) {
  std::vector<vm::Activation*> chain;
  for (vm::Activation* activation = top; activation; activation = activation->caller) {
    chain.insert(chain.begin(), activation);
    if (activation == base_) break;
  }
  segment_->returns = false;
  segment_->kept_frames = kept_;
  recipe_handling_ = &segment_->exit_handling;
  for (std::size_t i = 0; i < chain.size(); i++) {
    FrameRecipe frame;
    bool last = i + 1 == chain.size();
    if (!frame_recipe(chain[i], static_cast<int>(i), last ? ran : nullptr, frame)) {
      segment_.reset();
      return false;
    }
    if (last) frame.pc = pc;
    segment_->exit_frames.push_back(std::move(frame));
  }
  if (!note_handled(chain, segment_->exit_handling)) {
    segment_.reset();
    return false;
  }
  return finish();
}

bool Recorder::finish_return(PyObject* value) {
  segment_->returns = true;
  segment_->kept_frames = 0;
  segment_->result = recipe(value);
  if (segment_->result == kNullRecipe) {
    note_break(BreakId::k_unknown_object, "returning a " + recipe_failure_);
    segment_.reset();
    return false;
  }
  return finish();
}

/// Attributes and globals lie in dicts, which two objects may come to share: none that was written is what another name leads to,
/// unless it was so when this was recorded.
void Recorder::require_distinct_dicts() {
  std::unordered_set<PyObject*> written;
  for (const auto& [container, keys] : written_keys_) {
    if (PyDict_Check(container)) written.insert(container);
  }
  for (PyObject* container : dirty_) {
    if (PyDict_Check(container)) written.insert(container);
  }
  if (written.empty()) return;
  std::map<SourceId, PyObject*> places;  // where dicts lie; none there yet: null
  auto add = [&](SourceId source, PyObject* dict) {
    if (source != kNoSource) places.emplace(source, dict);
  };
  // What was written is not read again, so that the way there may not be known.
  auto add_namespace = [&](guards::SourceKind kind, SourceId source, PyObject* dict) {
    add(written.count(dict) ? guards_.read(kind, source, 0, nullptr) : guards_.known(kind, source), dict);
  };
  for (const auto& [object, known] : objects_) {
    if (known.known != Known::kExternal) continue;
    if (PyDict_Check(object)) add(known.source, object);
    if (PyModule_Check(object)) add_namespace(guards::SourceKind::kModuleDict, known.source, PyModule_GetDict(object));
    else if (PyFunction_Check(object)) add_namespace(guards::SourceKind::kFunctionGlobals, known.source, PyFunction_GET_GLOBALS(object));
    else if (!guards::is_tensor(object) && !PyType_Check(object) && holds_attributes(Py_TYPE(object)))
      add(guards_.read(guards::SourceKind::kInstanceDict, known.source, 0, nullptr), guards::instance_dict(object));
  }
  std::unordered_map<PyObject*, SourceId> first;
  std::vector<SourceId> own, others;
  for (const auto& [source, dict] : places) {
    if (written.count(dict) == 0) {
      others.push_back(source);
      continue;
    }
    auto [at, fresh] = first.try_emplace(dict, source);
    if (fresh) own.push_back(source);
    else guards_.check_same(source, at->second, true);
  }
  if (!own.empty()) guards_.check_distinct(std::move(own), std::move(others));
}

bool Recorder::build_effects() {
  for (const PendingEffect& effect : effects_) {
    Effect built{effect.kind};
    built.host = effect.host;
    if (effect.target && (built.target = recipe(effect.target.get())) == kNullRecipe) return false;
    if (effect.key && (built.key = recipe(effect.key.get())) == kNullRecipe) return false;
    if (effect.value && (built.value = recipe(effect.value.get())) == kNullRecipe) return false;
    if (effect.kind == EffectKind::kHostCall) {
      HostCall& call = segment_->host_calls[static_cast<std::size_t>(effect.host)];
      call.callee = std::exchange(built.target, kNullRecipe);
      call.arguments = std::exchange(built.key, kNullRecipe);
      call.keywords = std::exchange(built.value, kNullRecipe);
    }
    segment_->effects.push_back(built);
  }
  for (const ContextSet& set : context_sets_) {
    RecipeId token = recipe(set.token.get());
    if (token < 0) return false;
    segment_->effects.push_back({EffectKind::kContext, token});
  }
  bool grad = c10::GradMode::is_enabled();
  // An inference mode that is entered again sets the gradient mode as well.
  if (grad != entry_state_.grad || inference_entered()) {
    RecipeId value = recipe(grad ? Py_True : Py_False);
    segment_->effects.push_back({EffectKind::kGradMode, kNullRecipe, kNullRecipe, value});
  }
  // What was written must not be another name for something else that was read.
  for (const auto& [object, keys] : written_keys_) {
    if (!guards::is_tensor(object)) dirty_.insert(object);
  }
  for (const auto& [object, known] : objects_) {
    if (known.known == Known::kExternal && guards::is_tensor(object) && operators_.reshaped().count(guards::tensor_of(object).unsafeGetTensorImpl())) dirty_.insert(object);
  }
  require_distinct_dicts();
  std::unordered_set<PyObject*> written = dirty_;
  for (const PendingEffect& effect : effects_) {
    const bool on_tensor = effect.kind == EffectKind::kSetAttribute && guards::is_tensor(effect.target.get());
    if (on_tensor || effect.kind == EffectKind::kDeleteAttribute || effect.kind == EffectKind::kSetCell) written.insert(effect.target.get());
  }
  for (PyObject* one : written) {
    SourceId a = source_of(one);
    if (a == kNoSource || PyDict_Check(one)) continue;  // of dicts require_distinct_dicts has asked
    std::vector<SourceId> others;
    for (const auto& [object, known] : objects_) {
      const bool asked = written.count(object) != 0 && object < one;  // the other way round
      if (object != one && !asked && known.known == Known::kExternal && Py_TYPE(object) == Py_TYPE(one)) others.push_back(known.source);
    }
    for (SourceId b : others) guards_.check_same(a, b, false);
  }
  require_distinct_gradients();
  require_distinct_objects();
  return true;
}

bool Recorder::finish() {
  require_loaded_hosts();
  if ((handlers_entered_ > 0 && segment_->returns) || !build_effects() || !inference_mode_is_kept()) {
    segment_.reset();
    return false;
  }
  operators_.hoist_checks();
  segment_->graph = operators_.graph();
  segment_->lines.end();
  for (const graph::Input& input : segment_->graph->inputs) {
    auto outside = outside_inputs_.find(input.value);
    if (outside != outside_inputs_.end()) {
      segment_->input_sources.push_back(outside->second.first);
      inputs_.push_back(outside->second.second);
      continue;
    }
    if (auto host = operators_.host_inputs().find(input.value); host != operators_.host_inputs().end()) {
      segment_->input_sources.push_back(guards::kNoSource);
      segment_->host_inputs[static_cast<int>(inputs_.size())] = host->second;
      c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::TESTING_ONLY_GenericMode);
      at::Tensor number = at::zeros({}, at::TensorOptions().dtype(segment_->graph->type_of(input.value).dtype));
      number.unsafeGetTensorImpl()->set_wrapped_number(true);
      inputs_.push_back(number);
      continue;
    }
    for (const auto& [value, tensor] : operators_.constants()) {
      if (value != input.value) continue;
      segment_->input_sources.push_back(guards::kNoSource);
      segment_->literals[static_cast<int>(inputs_.size())] = tensor;
      inputs_.push_back(tensor);
    }
  }
  finish_sizes();
  leave_casts();
  for (graph::ValueId value : segment_->graph->outputs) {
    at::Tensor tensor = operators_.tensor(value);
    bool tracked = tensor.defined() && !tensor.is_inference();
    Segment::OutputTraits traits{tracked && tensor.is_view(), tracked ? version_at_end(tensor) : 0, std::nullopt, std::nullopt};
    const auto& inputs = segment_->graph->inputs;
    bool made_here = std::none_of(inputs.begin(), inputs.end(), [&](const graph::Input& input) { return input.value == value; });
    auto* view = tracked && made_here ? torch::autograd::impl::get_view_autograd_meta(tensor) : nullptr;
    if (view && view->has_bw_view()) {
      traits.written_since = traits.version - view->get_attr_version();
      traits.creation = static_cast<std::uint8_t>(view->get_creation_meta());
    }
    segment_->output_traits.push_back(traits);
  }
  if (segment_->sets_autocast) segment_->exit_autocast = TorchState::now();
  segment_->any_grad_mode = segment_->graph->any_grad_mode();
  segment_->weight_casts = WeightCasts(*segment_->graph);
  segment_->state.watch_device(*segment_->graph);
  segment_->drawn_from = runtime::drawn_from(*segment_->graph);
  segment_->writes_outside = operators_.wrote_outside();
  segment_->written_inputs = operators_.written(inputs_);
  segment_->proofs = operators_.proofs();
  if (segment_->writes_outside) {
    segment_->alias_pattern = alias_pattern(inputs_);
    segment_->only_read = operators_.only_read(inputs_);
  }
  segment_->operators = static_cast<std::uint64_t>(static_cast<std::ptrdiff_t>(segment_->graph->nodes.size() - operators_.cast_count()) + operators_.uncounted());
  guards_.drop_repeated();
  segment_->frames = frames_;
  return true;
}

/// A region that the segment began goes on behind it: the casts in it are results.
void Recorder::leave_casts() {
  const auto& inputs = segment_->graph->inputs;
  for (const OperatorRecorder::KeptCast& kept : operators_.kept_casts()) {
    const auto input = std::find_if(inputs.begin(), inputs.end(), [&](const graph::Input& known) { return known.value == kept.weight; });
    if (input == inputs.end() || !operators_.tensor(kept.cast).defined()) continue;
    segment_->casts_left.casts.push_back({static_cast<std::size_t>(input - inputs.begin()), segment_->graph->outputs.size()});
    segment_->graph->outputs.push_back(kept.cast);
  }
  operators_.drop_unused_gradients();
}

}  // namespace dynrun::trace
