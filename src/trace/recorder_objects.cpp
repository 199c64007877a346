// What the recorder knows of objects: constants, external ones with a path, fresh ones, tensors of the graph.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace dynrun::trace {

using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

constexpr int kMaxDepth = 32;
constexpr Py_ssize_t kMaxItems = 20000;

bool is_container(PyObject* object) {
  return PyList_CheckExact(object) || PyTuple_Check(object) || PyDict_Check(object) || PyAnySet_CheckExact(object);
}

}  // namespace

bool is_plain_temporary(PyObject* object) {
  static const std::unordered_set<std::string> names = {
      "list_iterator", "tuple_iterator", "range_iterator", "dict_keyiterator", "dict_valueiterator", "dict_itemiterator",
      "set_iterator", "list_reverseiterator", "reversed", "zip", "enumerate", "map", "filter", "dict_keys", "dict_values",
      "dict_items", "str_ascii_iterator", "str_iterator", "range", "slice", "method", "builtin_function_or_method", "generator",
      "cell", "function", "odict_iterator", "odict_keys", "odict_values", "odict_items", "longrange_iterator", "method-wrapper",
      "mappingproxy", "functools.partial", "itertools.chain", "itertools.repeat", "itertools.islice", "itertools.zip_longest", "itertools.product", "itertools.starmap",
      "itertools.accumulate", "types.GenericAlias", "operator.itemgetter", "operator.attrgetter", "torch.finfo", "torch.iinfo", "torch._C._CudaDeviceProperties", "dict_reversekeyiterator",
      "dict_reverseitemiterator", "dict_reversevalueiterator", "itertools.permutations", "itertools.combinations",
      "itertools.combinations_with_replacement", "itertools.count", "itertools.groupby", "itertools._grouper", "itertools.takewhile",
      "itertools.dropwhile", "itertools.pairwise", "itertools.batched", "itertools.cycle", "itertools._tee", "itertools.compress",
      "itertools.filterfalse", "functools.KeyWrapper", "collections.deque", "_collections._deque_iterator", "_collections._deque_reverse_iterator",
      "collections.defaultdict", "operator.methodcaller", "callable_iterator", "types.GenericAlias", "types.UnionType"};
  return names.count(Py_TYPE(object)->tp_name) != 0;
}

bool is_number_info(PyObject* object) {
  const std::string_view name = Py_TYPE(object)->tp_name;
  return name == "torch.finfo" || name == "torch.iinfo" || name == "torch._C._CudaDeviceProperties";
}

namespace {

bool is_builtin_function(PyObject* object);

/// Whether all that C code can read of an object from outside is known by its parts: an instance whose class is written in
/// Python, so that its state is attributes, or one of the built-in kinds that are guarded by content or identity.
bool is_transparent(PyObject* object) {
  if (guards::is_constant_like(object) || guards::is_plain_tensor(object) || PyType_Check(object) || PyFunction_Check(object) ||
      PyMethod_Check(object) || PyCFunction_Check(object) || PyModule_Check(object) || PyCode_Check(object) || PyRange_Check(object) ||
      PyWeakref_CheckRefExact(object) || PySlice_Check(object) || PyCell_Check(object) || is_number_info(object) || is_constant_getter(object) || is_numpy_function(object))
    return true;
  PyTypeObject* type = Py_TYPE(object);
  if (PyList_CheckExact(object) || PyTuple_Check(object) || PyDict_CheckExact(object) || PyODict_CheckExact(object)) return true;
  if (std::string_view(type->tp_name) == "functools.partial" || is_builtin_function(object)) return true;
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return false;
  PyTypeObject* base = builtin_base(type);
  if (base == nullptr) return false;
  return base == &PyBaseObject_Type || base == &PyModule_Type || PyType_IsSubtype(base, &PyDict_Type) || base == &PyTuple_Type;
}

bool is_builtin_function(PyObject* object) {
  return PyCFunction_Check(object) || Py_TYPE(object) == &PyMethodDescr_Type || Py_TYPE(object) == &PyWrapperDescr_Type ||
         Py_TYPE(object) == &PyClassMethodDescr_Type;
}

}  // namespace

bool is_getter(PyObject* object) {
  std::string_view name = Py_TYPE(object)->tp_name;
  return name == "operator.itemgetter" || name == "operator.attrgetter" || name == "operator.methodcaller";
}

bool is_constant_getter(PyObject* object) {
  if (!is_getter(object)) return false;
  Ref reduced = Ref::steal(PyObject_CallMethod(object, "__reduce__", nullptr));
  PyObject* parts = reduced && PyTuple_Check(reduced.get()) && PyTuple_GET_SIZE(reduced.get()) == 2 ? PyTuple_GET_ITEM(reduced.get(), 1) : nullptr;
  PyErr_Clear();
  bool constant = parts && PyTuple_CheckExact(parts);
  for (Py_ssize_t i = 0; constant && i < PyTuple_GET_SIZE(parts); i++)
    constant = guards::is_constant_like(PyTuple_GET_ITEM(parts, i));
  return constant;
}

bool is_of_module(PyObject* function, const char* module) {
  PyObject* name = PyFunction_Check(function) ? PyFunction_GET_MODULE(function) : nullptr;
  return name && PyUnicode_Check(name) && PyUnicode_CompareWithASCIIString(name, module) == 0;
}

bool is_plain_class(PyObject* object) {
  return PyType_Check(object) && Py_TYPE(object)->tp_hash == PyType_Type.tp_hash && Py_TYPE(object)->tp_richcompare == PyType_Type.tp_richcompare;
}

bool is_global_class(PyTypeObject* type) {
  if (type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) return true;
  static PyObject* const module_name = PyUnicode_InternFromString("__module__");
  PyObject* module = _PyType_Lookup(type, module_name);
  const Ref name = Ref::steal(PyType_GetQualName(type));
  module = module && PyUnicode_CheckExact(module) ? PyDict_GetItemWithError(PyImport_GetModuleDict(), module) : nullptr;
  PyObject* found = module && PyModule_Check(module) && name ? PyDict_GetItemWithError(PyModule_GetDict(module), name.get()) : nullptr;
  PyErr_Clear();
  return found == reinterpret_cast<PyObject*>(type);
}

PyObject* shared_generator() {
  static const python::Kept generator = import_path("random:_inst");
  return generator.get();
}

Recorder::Object* Recorder::find(PyObject* object) {
  auto at = objects_.find(object);
  return at == objects_.end() || at->second.type != Py_TYPE(object) ? nullptr : &at->second;
}

SourceId Recorder::source_of(PyObject* object) {
  Object* known = find(object);
  return known && known->known == Known::kExternal ? known->source : kNoSource;
}

void Recorder::learn_fresh(PyObject* object) {
  if (guards::is_constant_like(object)) return;
  objects_.insert_or_assign(object, Object{Known::kFresh, kNoSource, Py_TYPE(object), Ref(), Contents::kLearnt});
}

bool Recorder::learn_external(PyObject* object, SourceId source) {
  if (object == Py_None || object == Py_True || object == Py_False || object == Py_Ellipsis || object == Py_NotImplemented) {
    guards_.check_is(source, object);
    return true;
  }
  if (guards::is_constant_like(object)) {
    if (wants_host(object, source)) {
      loaded_hosts_.emplace_back(Ref::borrow(object), read_host(object, source));
      return true;
    }
    const bool nan = PyFloat_CheckExact(object) && std::isnan(PyFloat_AS_DOUBLE(object));
    if (nan) guards_.check_is(source, object);  // containers find it by identity
    else guards_.check_equals(source, object);
    auto& [kept, sources] = outside_constants_[object];
    kept = Ref::borrow(object);
    if (std::find(sources.begin(), sources.end(), source) == sources.end()) sources.push_back(source);
    return true;
  }
  if (Object* known = find(object)) {
    if (known->known == Known::kFresh) return true;  // recorded code put it there
    if (known->source != source) guards_.check_same(source, known->source, true);
    return true;
  }
  if (guards::is_tensor(object) && !guards::has_plain_layout(object)) return false;
  if (PyCode_Check(object) || is_constant_getter(object) || is_numpy_function(object)) {
    guards_.check_is(source, object);
  } else if (PyRange_Check(object) || is_number_info(object)) {
    guards_.check_equals(source, object);
  } else if (PyType_Check(object)) {
    guards_.check_is_type(source, reinterpret_cast<PyTypeObject*>(object));
  } else if (is_builtin_function(object)) {
    PyObject* self = bound_object(object);
    bool immutable = self && (guards::is_constant_like(self) || PyFrozenSet_CheckExact(self));
    if (self && !immutable && self != shared_generator()) return false;  // read it by the object
    guards_.check_is(source, object);
  } else if (PyFunction_Check(object)) {
    guards_.check_code(source, object);
  } else if (guards::is_plain_tensor(object)) {
    guards_.check_type(source, Py_TYPE(object));
    learn_outside_tensor(object, source);
  } else {
    guards_.check_type(source, Py_TYPE(object));
    // A tuple subclass (a named tuple, torch.Size) or another immutable object is known by its parts.
  }
  objects_.insert_or_assign(object, Object{Known::kExternal, source, Py_TYPE(object), Ref::borrow(object), Contents::kUnseen});
  return true;
}

/// Guards what a container from outside holds. What was refused stays refused: nothing guards it.
bool Recorder::learn_contents(PyObject* container, Object& known, int depth) {
  if (known.known == Known::kFresh || known.contents == Contents::kLearnt) return true;
  if (known.contents == Contents::kRefused || depth > kMaxDepth) return false;
  const SourceId source = known.source;
  known.contents = Contents::kLearnt;  // what holds itself is learnt with itself
  if (read_contents(container, source, depth)) return true;
  find(container)->contents = Contents::kRefused;
  return false;
}

bool Recorder::read_contents(PyObject* container, SourceId source, int depth) {
  if (is_dirty(container) || written_keys_.count(container)) return false;
  auto item = [&](PyObject* object, SourceKind kind, std::int32_t index, PyObject* key) {
    return learn_external(object, guards_.read(kind, source, index, key)) && resolve_deep(object, depth + 1);
  };
  if (PyTuple_Check(container) || PyList_Check(container)) {
    Py_ssize_t count = Py_SIZE(container);
    if (count > kMaxItems) return false;
    guards_.check_length(source, count);
    for (Py_ssize_t i = 0; i < count; i++) {
      PyObject* object = PyTuple_Check(container) ? PyTuple_GET_ITEM(container, i) : PyList_GET_ITEM(container, i);
      if (!item(object, SourceKind::kSequenceItem, static_cast<std::int32_t>(i), nullptr)) return false;
    }
    return true;
  }
  if (PyDict_Check(container)) {
    if (PyDict_GET_SIZE(container) > kMaxItems) return false;
    guards_.check_keys(source, container);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(container, &at, &key, &value)) {
      if (!guards::is_constant_like(key)) return false;
      if (!item(value, SourceKind::kDictItem, 0, key)) return false;
    }
    return true;
  }
  return !PyAnySet_Check(container);  // a set from outside has no order that guards could hold
}

/// What code that only copies references needs to know: of a dict from outside its keys, and where each value comes from; of one of
/// another class that it is copied as a dict is.
bool Recorder::resolve_to_copy(PyObject* object) {
  if (PyDict_Check(object) && !PyDict_CheckExact(object)) {
    static PyObject* const names[] = {PyUnicode_InternFromString("keys"), PyUnicode_InternFromString("__iter__"), PyUnicode_InternFromString("__getitem__")};
    for (PyObject* name : names) guards_.note_type_lookup(Py_TYPE(object), name, _PyType_Lookup(Py_TYPE(object), name));
  }
  if (!PyDict_CheckExact(object) || !resolve(object) || source_of(object) == kNoSource || find(object)->contents == Contents::kLearnt) return resolve_deep(object);
  if (is_dirty(object) || written_keys_.count(object) || PyDict_GET_SIZE(object) > kMaxItems) return false;
  const SourceId source = source_of(object);
  guards_.check_keys(source, object);
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(object, &at, &key, &value)) {
    if (!guards::is_constant_like(key) || !learn_external(value, guards_.read(SourceKind::kDictItem, source, 0, key))) return false;
  }
  return true;
}

/// The items of a list of a class of its own; what else there is to the object is not looked at.
bool Recorder::learn_items(PyObject* list) {
  Object* known = find(list);
  if (known == nullptr) return false;
  if (known->known == Known::kExternal) return learn_contents(list, *known, 0);
  return std::all_of(&PyList_GET_ITEM(list, 0), &PyList_GET_ITEM(list, 0) + PyList_GET_SIZE(list), [&](PyObject* item) { return resolve_deep(item, 0, true); });
}

SourceId Recorder::local_source(std::size_t depth, std::size_t slot) {
  PyObject* names = entry_[depth].code->co_localsplusnames;
  return guards_.read(SourceKind::kLocal, static_cast<std::int32_t>(depth), static_cast<std::int32_t>(slot),
                      PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(slot)));
}

bool Recorder::resolve(PyObject* object) {
  if (guards::is_constant_like(object) || is_late(object)) return true;
  if (find(object)) return true;
  if (guards::is_plain_tensor(object) && operators_.find(guards::tensor_of(object)) != graph::kNoValue) return true;
  for (std::size_t depth = 0; depth < entry_.size(); depth++) {
    if (entry_[depth].activation && entry_[depth].activation->frame->function == object)
      return learn_external(object, guards_.read(SourceKind::kFrameFunction, static_cast<std::int32_t>(depth), 0, nullptr));
  }
  // A static type needs no guard: it cannot change and lives for ever.
  if (PyType_Check(object) && !(reinterpret_cast<PyTypeObject*>(object)->tp_flags & Py_TPFLAGS_HEAPTYPE))
    return learn_external(object, guards_.constant(object));
  if (PyCode_Check(object)) return learn_external(object, guards_.constant(object));
  // Built-in functions and the descriptors of C classes are part of what is loaded: the same object for ever.
  if (is_builtin_function(object)) {
    PyObject* owner = PyCFunction_Check(object) ? PyCFunction_GET_SELF(object) : nullptr;
    bool of_heap_class = owner && PyType_Check(owner) && (reinterpret_cast<PyTypeObject*>(owner)->tp_flags & Py_TPFLAGS_HEAPTYPE);
    if (of_heap_class) return false;  // known by the class
    if (!bound_object(object)) return learn_external(object, guards_.constant(object));
  }
  return false;
}

bool Recorder::resolve_deep(PyObject* object, int depth, bool keep_hosts) {
  if (is_unsettled(object)) return keep_hosts;
  if (is_host(object) || is_open_size(object)) return keep_hosts || is_constant(object);
  if (!resolve(object)) return false;
  if (PySlice_Check(object)) return resolve_slice(object);
  // C code reads the state of such an object without being seen; sets among a code's constants are the same for ever.
  if (Object* one = find(object); one && PyFrozenSet_CheckExact(object) && one->contents == Contents::kLearnt) return true;
  if (source_of(object) != kNoSource && !is_transparent(object)) return false;
  if (guards::is_constant_like(object) || !is_container(object)) return true;
  Object* known = find(object);
  if (known == nullptr) return true;
  if (known->known == Known::kFresh) {
    // Fresh containers may hold external ones.
    if (depth > kMaxDepth) return false;
    if (PyTuple_Check(object) || PyList_CheckExact(object)) {
      for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
        PyObject* item = PyTuple_Check(object) ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
        if (!resolve_deep(item, depth + 1, keep_hosts)) return false;
      }
    } else if (PyDict_Check(object)) {
      Py_ssize_t at = 0;
      PyObject *key, *value;
      while (PyDict_Next(object, &at, &key, &value)) {
        if (!resolve_deep(value, depth + 1, keep_hosts)) return false;
      }
    }
    return true;
  }
  return learn_contents(object, *known, depth);
}

bool Recorder::resolve_slice(PyObject* object) {
  auto* slice = reinterpret_cast<PySliceObject*>(object);
  SourceId owner = source_of(object);
  std::pair<const char*, PyObject*> parts[] = {{"start", slice->start}, {"stop", slice->stop}, {"step", slice->step}};
  for (auto [text, value] : parts) {
    if (!is_constant(value) && !resolve(value)) return false;
    if (owner == kNoSource) continue;
    Ref name = Ref::steal(PyUnicode_InternFromString(text));
    PyObject* member = _PyType_Lookup(&PySlice_Type, name.get());
    if (!member || Py_TYPE(member) != &PyMemberDescr_Type) return false;
    if (!learn_external(value, guards_.read(SourceKind::kMember, owner, 0, name.get(), member))) return false;
  }
  return true;
}

bool Recorder::learn_result(PyObject* object, int depth) {
  if (object == nullptr || depth > kMaxDepth) return object == nullptr;
  if (guards::is_constant_like(object)) {
    note_open_size(object);
    return true;
  }
  if (guards::is_tensor(object)) {
    if (find(object)) return true;
    if (!guards::is_plain_tensor(object)) return false;
    // `requires_grad=True` of a factory is set behind the dispatcher: the result then is not what the operator gave.
    const at::Tensor& tensor = guards::tensor_of(object);
    graph::ValueId value = operators_.find(tensor);
    if (value == graph::kNoValue) return false;
    bool marked = tensor.requires_grad() && tensor.is_leaf() && !operators_.graph()->type_of(value).requires_grad;
    return !marked || outside_tensors_.count(tensor.unsafeGetTensorImpl()) != 0;
  }
  if (PyTuple_Check(object) || PyList_CheckExact(object)) {
    if (Object* known = find(object); known && known->known == Known::kExternal) return true;
    if (!PyTuple_CheckExact(object) && !PyList_CheckExact(object) && PyObject_HasAttrString(object, "n_sequence_fields") == 0 && !find(object))
      return false;
    learn_fresh(object);
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
      PyObject* item = PyTuple_Check(object) ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i);
      if (!learn_result(item, depth + 1)) return false;
    }
    return true;
  }
  if (PyDict_CheckExact(object) || PyODict_CheckExact(object)) {
    if (Object* known = find(object); known && known->known == Known::kExternal) return true;
    learn_fresh(object);
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &at, &key, &value)) {
      if (!learn_result(key, depth + 1) || !learn_result(value, depth + 1)) return false;
    }
    return true;
  }
  if (resolve(object)) return true;
  if (PyExceptionInstance_Check(object) && !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    learn_fresh(object);
    return true;
  }
  if (PyTraceBack_Check(object)) {
    learn_fresh(object);
    return true;
  }
  // A class that recorded code computed (`type(x)`): it follows from what is guarded.
  if (PyType_Check(object)) return learn_external(object, guards_.constant(object));
  if (PyAnySet_CheckExact(object) || is_plain_temporary(object)) {
    if (PyMethod_Check(object) && (!resolve(PyMethod_GET_FUNCTION(object)) || !resolve(PyMethod_GET_SELF(object)))) return false;
    learn_fresh(object);
    return true;
  }
  return false;
}

/// Called by the dispatcher, without the GIL: no Python object may be touched.
graph::ValueId Recorder::outside_tensor(const at::Tensor& tensor) {
  auto at = outside_tensors_.find(tensor.unsafeGetTensorImpl());
  if (at == outside_tensors_.end()) return graph::kNoValue;
  const auto& [source, name] = at->second;
  // What hangs on an object (a module's weight) is the same tensor call after call; an argument is not.
  bool parameter = name.find('.') != std::string::npos;
  graph::ValueId id = operators_.add_input(tensor, parameter ? graph::InputKind::kParameter : graph::InputKind::kActivation, name);
  outside_inputs_[id] = {source, tensor};
  return id;
}

bool Recorder::is_weight(const at::Tensor& tensor) const {
  const auto at = outside_tensors_.find(tensor.unsafeGetTensorImpl());
  if (at == outside_tensors_.end()) return false;
  const std::string& name = at->second.second;
  return name.find("._parameters['") != std::string::npos || name.find("._buffers['") != std::string::npos;
}

SourceId Recorder::type_source(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  SourceId known = source_of(reinterpret_cast<PyObject*>(type));
  if (known != kNoSource) return known;
  SourceId source = source_of(object);
  if (source == kNoSource) {
    if (!resolve(reinterpret_cast<PyObject*>(type))) learn_external(reinterpret_cast<PyObject*>(type), guards_.constant(reinterpret_cast<PyObject*>(type)));
    return source_of(reinterpret_cast<PyObject*>(type));
  }
  return guards_.read(SourceKind::kTypeOf, source, 0, nullptr);
}

bool Recorder::read_local(vm::Activation& activation, int slot) {
  for (std::size_t depth = 0; depth < entry_.size(); depth++) {
    EntrySlots& slots = entry_[depth];
    if (slots.activation != &activation) continue;
    auto index = static_cast<std::size_t>(slot);
    if (slots.written[index] || slots.read[index]) return true;
    slots.read[index] = true;
    SourceId source = local_source(depth, index);
    if (slots.locals[index] == nullptr) {
      guards_.check_null(source);
      return true;
    }
    if (wants_host(slots.locals[index], source)) {
      adopt_host(&activation.locals()[slot], read_host(slots.locals[index], source));
      slots.locals[index] = activation.locals()[slot];
      return true;
    }
    if (wants_size(slots.locals[index], source)) {
      adopt_size(&activation.locals()[slot], source);
      slots.locals[index] = activation.locals()[slot];
      return true;
    }
    return learn_external(slots.locals[index], source);
  }
  return true;
}

bool Recorder::learn_function_defaults(PyObject* function) {
  SourceId source = source_of(function);
  if (source == kNoSource) return true;
  auto part = [&](PyObject* value, SourceKind kind) {
    SourceId path = guards_.read(kind, source, 0, nullptr);
    if (value == nullptr) {
      guards_.check_null(path);
      return true;
    }
    return learn_external(value, path) && resolve_deep(value);
  };
  return part(PyFunction_GET_DEFAULTS(function), SourceKind::kFunctionDefaults) &&
         part(PyFunction_GET_KW_DEFAULTS(function), SourceKind::kFunctionKeywordDefaults);
}

SourceId Recorder::globals_source(vm::Activation& activation) {
  PyObject* function = activation.frame->function;
  if (!resolve(function)) return kNoSource;
  SourceId source = source_of(function);
  if (source == kNoSource) {
    // A function that recorded code made has the globals of the code that made it.
    auto maker = function_of_globals_.find(activation.frame->globals);
    if (maker == function_of_globals_.end()) return kNoSource;
    source = maker->second;
  }
  function_of_globals_.try_emplace(activation.frame->globals, source);
  return guards_.read(SourceKind::kFunctionGlobals, source, 0, nullptr);
}

bool Recorder::was_written(PyObject* container, PyObject* key) {
  auto at = written_keys_.find(container);
  if (at == written_keys_.end()) return false;
  for (const Ref& written : at->second) {
    if (written.get() == key) return true;
    int equal = PyObject_RichCompareBool(written.get(), key, Py_EQ);
    if (equal < 0) PyErr_Clear();
    if (equal == 1) return true;
  }
  return false;
}

}  // namespace dynrun::trace
