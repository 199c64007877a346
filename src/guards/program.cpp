#include "guards/program.h"

#include "guards/short_forms.h"
#include "guards/cached_call.h"
#include "guards/numpy_scalar.h"
#include "guards/output.h"
#include "guards/torch_python.h"
#include "python/compat.h"
#include "python/import.h"
#include "python/signals.h"
#include "python/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <tuple>

namespace dynrun::guards {

using python::Ref;

namespace {

/// An ordered dict keeps an order of its own beside that of the dict it is.
Ref keys_in_order(PyObject* dict) {
  if (!PyODict_Check(dict)) {
    Ref keys = Ref::steal(PyDict_Keys(dict));
    return Ref::steal(PyList_AsTuple(keys.get()));
  }
  Ref iterator = Ref::steal(PyODict_Type.tp_iter(dict));
  Ref keys = iterator ? Ref::steal(PySequence_Tuple(iterator.get())) : Ref();
  if (!keys) PyErr_Clear();
  return keys ? std::move(keys) : Ref::steal(PyTuple_New(0));
}

constexpr const char* kRangeParts[] = {"start", "stop", "step"};

bool is_number_or_text(PyObject* object) {
  return PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) ||
         PyBytes_CheckExact(object) || PyBool_Check(object) || PyComplex_CheckExact(object);
}

/// A text that differs for keys that differ. Constants of equal value are one key; others (classes, functions) go by address, which
/// the Source keeps alive.
std::string exact(PyObject* key) {
  const std::string address = fmt::format(":{}", static_cast<void*>(key));
  const bool nan = (PyFloat_CheckExact(key) && std::isnan(PyFloat_AS_DOUBLE(key))) || (PyComplex_CheckExact(key) && (std::isnan(PyComplex_RealAsDouble(key)) || std::isnan(PyComplex_ImagAsDouble(key))));
  if (!is_number_or_text(key) || nan) return address;
  python::HeldSignals held;
  const Ref text = PyUnicode_CheckExact(key) ? Ref::borrow(key) : Ref::steal(PyObject_Repr(key));
  Py_ssize_t size = 0;
  const char* utf8 = text ? PyUnicode_AsUTF8AndSize(text.get(), &size) : nullptr;
  if (utf8 == nullptr) PyErr_Clear();  // lone surrogates; a number too long to print
  return utf8 ? fmt::format("={}:{}", Py_TYPE(key)->tp_name, std::string_view(utf8, static_cast<std::size_t>(size))) : address;
}

bool constants_equal(PyObject* a, PyObject* b);

/// Ranges of the same numbers may be written in several ways.
bool ranges_equal(PyObject* a, PyObject* b) {
  return std::all_of(std::begin(kRangeParts), std::end(kRangeParts), [&](const char* part) {
    const Ref x = Ref::steal(PyObject_GetAttrString(a, part)), y = Ref::steal(PyObject_GetAttrString(b, part));
    PyErr_Clear();
    return x && y && constants_equal(x.get(), y.get());
  });
}

/// Equality of constants, without Python code. Floats by bits: 0.0 is not -0.0, and a NaN is itself.
bool constants_equal(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (Py_TYPE(a) != Py_TYPE(b)) return false;
  if (PyFloat_CheckExact(a)) {
    double x = PyFloat_AS_DOUBLE(a), y = PyFloat_AS_DOUBLE(b);
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (PyComplex_CheckExact(a)) {
    Py_complex x = reinterpret_cast<PyComplexObject*>(a)->cval, y = reinterpret_cast<PyComplexObject*>(b)->cval;
    return std::memcmp(&x, &y, sizeof x) == 0;
  }
  if (is_numpy_scalar(a)) return same_numpy_scalars(a, b);
  if (is_enum_member(a)) return false;
  if (PyRange_Check(a)) return ranges_equal(a, b);
  int equal = PyObject_RichCompareBool(a, b, Py_EQ);
  if (equal < 0) PyErr_Clear();
  return equal == 1;
}

PyObject* member_value(PyObject* object, PyObject* descriptor) {
  if (!PyObject_TypeCheck(object, PyDescr_TYPE(descriptor))) return nullptr;
  auto* member = reinterpret_cast<PyMemberDescrObject*>(descriptor)->d_member;
  if (member->type != _Py_T_OBJECT && member->type != Py_T_OBJECT_EX) return nullptr;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset);
}

/// The first field behind the object header: property's getter, the callable of a staticmethod or classmethod.
PyObject* first_field(PyObject* object) {
  if (Py_TYPE(object) != &PyProperty_Type && Py_TYPE(object) != &PyStaticMethod_Type && Py_TYPE(object) != &PyClassMethod_Type)
    return nullptr;
  return *reinterpret_cast<PyObject**>(object + 1);
}

/// What `super(after, self).name` finds for a self of class `type`.
PyObject* lookup_behind(PyTypeObject* type, PyTypeObject* after, PyObject* name) {
  PyObject* mro = type->tp_mro;
  if (mro == nullptr) return nullptr;
  Py_ssize_t i = 0, n = PyTuple_GET_SIZE(mro);
  while (i < n && PyTuple_GET_ITEM(mro, i) != reinterpret_cast<PyObject*>(after)) i++;
  for (i++; i < n; i++) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(mro, i));
    Ref dict = Ref::steal(PyType_GetDict(base));
    PyObject* found = dict ? PyDict_GetItemWithError(dict.get(), name) : nullptr;
    if (found != nullptr) return found;
    PyErr_Clear();
  }
  return nullptr;
}

/// Whether a set holds what the dict has under itself, and nothing else. 1, True and 1.0 are one key, but not the same item.
/// Borrowed. Makes the dicts that a function has by right, as reading them does.
PyObject* function_field(PyFunctionObject* function, std::int32_t field) {
  static PyObject* const empty = PyTuple_New(0);
  switch (static_cast<FunctionField>(field)) {
    case FunctionField::kName: return function->func_name;
    case FunctionField::kQualifiedName: return function->func_qualname;
    case FunctionField::kAnnotations: return PyFunction_GetAnnotations(reinterpret_cast<PyObject*>(function));
    case FunctionField::kModule: return function->func_module;
    case FunctionField::kDoc: return function->func_doc;
    case FunctionField::kTypeParameters: return function->func_typeparams ? function->func_typeparams : empty;
    case FunctionField::kDict: {
      const Ref made = Ref::steal(PyObject_GenericGetDict(reinterpret_cast<PyObject*>(function), nullptr));
      PyErr_Clear();
      return function->func_dict;
    }
  }
  return nullptr;
}

/// `expected`: a tuple where they have to lie in that order, a dict where any will do.
bool has_items(PyObject* set, PyObject* expected) {
  const Py_ssize_t count = PyTuple_Check(expected) ? PyTuple_GET_SIZE(expected) : PyDict_GET_SIZE(expected);
  if (!PyAnySet_CheckExact(set) || PySet_GET_SIZE(set) != count) return false;
  Py_ssize_t at = 0, turn = 0;
  PyObject* item;
  Py_hash_t hash;
  while (_PySet_NextEntry(set, &at, &item, &hash)) {
    PyObject* same = PyTuple_Check(expected) ? PyTuple_GET_ITEM(expected, turn++) : PyDict_GetItemWithError(expected, item);
    PyErr_Clear();
    if (same == nullptr || (same != item && !constants_equal(same, item))) return false;
  }
  return true;
}

/// Of two that are `expected` there, the very objects.
bool expects_same_items(PyObject* a, PyObject* b) {
  if (PyTuple_Check(a) || PyTuple_Check(b) || PyDict_GET_SIZE(a) != PyDict_GET_SIZE(b)) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(a, &at, &key, &value)) {
    PyObject* same = PyDict_GetItemWithError(b, key);
    PyErr_Clear();
    if (same != value) return false;
  }
  return true;
}

bool verify_guards = false;

bool is_static_type(PyTypeObject* type) { return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE); }

bool same_key(PyObject* key, PyObject* expected) {
  return key == expected || (is_constant_like(key) && is_constant_like(expected) && constants_equal(key, expected));
}

bool same_keys(PyObject* keys, PyObject* expected) {
  if (PyTuple_GET_SIZE(keys) != PyTuple_GET_SIZE(expected)) return false;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); i++) {
    if (!same_key(PyTuple_GET_ITEM(keys, i), PyTuple_GET_ITEM(expected, i))) return false;
  }
  return true;
}

}  // namespace

void set_verify_guards(bool on) { verify_guards = on; }

PyObject* class_field(PyTypeObject* type, int index) {
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return nullptr;
  auto* heap = reinterpret_cast<PyHeapTypeObject*>(type);
  if (index < 2) return index == 0 ? heap->ht_name : heap->ht_qualname;
  static PyObject* const names[] = {PyUnicode_InternFromString("__module__"), PyUnicode_InternFromString("__doc__")};
  PyObject* value = type->tp_dict ? PyDict_GetItemWithError(type->tp_dict, names[index - 2]) : nullptr;
  PyErr_Clear();
  return value;
}

bool is_enum_member(PyObject* object) {
  static PyObject* enum_meta = [] {
    const python::Ref module = python::import_module("enum");
    PyObject* meta = module ? PyObject_GetAttrString(module.get(), "EnumMeta") : nullptr;
    PyErr_Clear();
    return meta;
  }();
  return enum_meta != nullptr && PyObject_TypeCheck(reinterpret_cast<PyObject*>(Py_TYPE(object)),
                                                    reinterpret_cast<PyTypeObject*>(enum_meta));
}

bool is_constant_like(PyObject* object) {
  if (object == Py_None || object == Py_Ellipsis || object == Py_NotImplemented) return true;
  if (is_number_or_text(object)) return true;
  if (is_torch_constant(object) || is_numpy_scalar(object)) return true;
  return is_enum_member(object);
}

PyObject* attribute_behind(PyTypeObject* type, PyTypeObject* after, PyObject* name) { return lookup_behind(type, after, name); }

PyObject* instance_dict(PyObject* object) {
  PyObject** slot = _PyObject_GetDictPtr(object);
  if (slot == nullptr) {
    PyErr_Clear();
    return nullptr;
  }
  return *slot;
}

static std::string path_of(SourceKind kind, SourceId parent, std::int32_t index, PyObject* aux) {
  return fmt::format("{}:{}:{}:{}", static_cast<int>(kind), parent, index, static_cast<void*>(aux));
}

SourceId Program::known(SourceKind kind, SourceId parent) const {
  auto found = paths_.find(path_of(kind, parent, 0, nullptr));
  return found == paths_.end() ? kNoSource : found->second;
}

SourceId Program::read(SourceKind kind, SourceId parent, std::int32_t index, PyObject* key, PyObject* aux) {
  std::string path = path_of(kind, parent, index, aux);
  if (key != nullptr) path += exact(key);
  auto found = paths_.find(path);
  if (found != paths_.end()) return found->second;
  auto id = static_cast<SourceId>(sources_.size());
  sources_.push_back({kind, parent, index, Ref::borrow(key), Ref::borrow(aux)});
  paths_.emplace(std::move(path), id);
  add(CheckKind::kRead, id);
  return id;
}

SourceId Program::constant(PyObject* object) { return read(SourceKind::kConstant, kNoSource, 0, object); }

Program::Step& Program::add(CheckKind kind, SourceId source, PyObject* object) {
  Step step;
  step.kind = kind;
  step.source = source;
  step.line = line_;
  step.object = Ref::borrow(object);
  steps_.push_back(std::move(step));
  return steps_.back();
}

std::int32_t Program::type_record(PyTypeObject* type) {
  auto [at, fresh] = type_index_.try_emplace(type, static_cast<std::int32_t>(types_.size()));
  const std::int32_t index = at->second;
  if (fresh) {
    TypeRecord record;
    record.type = type;
    if (!is_static_type(type)) {
      record.weak = Ref::steal(PyWeakref_NewRef(reinterpret_cast<PyObject*>(type), nullptr));
      PyUnstable_Type_AssignVersionTag(type);
      record.version = type->tp_version_tag;
      record.special = SpecialMethods::of(type);
      record.abstract = type->tp_flags & Py_TPFLAGS_IS_ABSTRACT;
      for (Py_ssize_t i = 1; type->tp_mro && i < PyTuple_GET_SIZE(type->tp_mro); i++) record.bases.push_back(Ref::steal(PyWeakref_NewRef(PyTuple_GET_ITEM(type->tp_mro, i), nullptr)));
    }
    types_.push_back(std::move(record));
    require_special_methods(Py_TYPE(type));  // what `isinstance` and the like ask a class for
  }
  return index;
}

void Program::note_type_lookup(PyTypeObject* type, PyObject* name, PyObject* found) {
  if (is_static_type(type) && type->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) return;
  TypeRecord& record = types_[static_cast<std::size_t>(type_record(type))];
  const bool known = std::any_of(record.lookups.begin(), record.lookups.end(), [&](const ClassLookup& lookup) { return lookup.name() == name; });
  if (known) return;
  record.lookups.emplace_back(type, name, found);
  if (found && !PyType_Check(found)) require_special_methods(Py_TYPE(found));  // they make a descriptor of it, or do not
}

void Program::require_unchanged(PyTypeObject* type) {
  if (is_static_type(type)) return;
  types_[static_cast<std::size_t>(type_record(type))].strict = true;
  require_special_methods(type);
}

void Program::require_special_methods(PyTypeObject* type) {
  if (is_static_type(type)) return;
  auto index = static_cast<std::size_t>(type_record(type));
  // Checked even when no object of the class is: through the class itself.
  if (!std::exchange(types_[index].held, true)) check_is_type(constant(reinterpret_cast<PyObject*>(type)), type);
}

/// Whether the classes behind `type` in its MRO are those that the weak references lead to.
static bool has_bases(PyTypeObject* type, const std::vector<Ref>& bases) {
  PyObject* mro = type->tp_mro;
  if (mro == nullptr || PyTuple_GET_SIZE(mro) != static_cast<Py_ssize_t>(bases.size()) + 1) return false;
  for (std::size_t i = 0; i < bases.size(); i++) {
    if (PyTuple_GET_ITEM(mro, static_cast<Py_ssize_t>(i) + 1) != PyWeakref_GET_OBJECT(bases[i].get())) return false;
  }
  return true;
}

bool Program::type_holds(const TypeRecord& record, PyTypeObject* type) const {
  if (type != record.type) return false;
  if (!record.weak) return true;
  if (type->tp_version_tag == record.version && record.version != 0) return true;
  if (record.strict) return false;
  if (PyWeakref_GET_OBJECT(record.weak.get()) != reinterpret_cast<PyObject*>(type)) return false;
  if (!std::all_of(record.lookups.begin(), record.lookups.end(), [&](const ClassLookup& lookup) { return lookup.holds(type); })) return false;
  if (!record.special->hold(type) || record.abstract != static_cast<bool>(type->tp_flags & Py_TPFLAGS_IS_ABSTRACT)) return false;
  if (!has_bases(type, record.bases)) return false;
  PyUnstable_Type_AssignVersionTag(type);
  record.version = type->tp_version_tag;
  return true;
}

void Program::check_type(SourceId source, PyTypeObject* type) { add(CheckKind::kType, source).index = type_record(type); }
void Program::check_is_type(SourceId source, PyTypeObject* type) { add(CheckKind::kIsType, source).index = type_record(type); }
void Program::check_is(SourceId source, PyObject* object) { add(CheckKind::kIs, source, object); }
void Program::check_equals(SourceId source, PyObject* value) { add(CheckKind::kEquals, source, value); }
void Program::check_code(SourceId source, PyObject* function) {
  add(CheckKind::kCode, source, PyFunction_GET_CODE(function));
}
void Program::check_absent(SourceId dict, PyObject* key) { add(CheckKind::kAbsent, dict, key); }
void Program::check_no_instance_attribute(SourceId object, PyObject* key) { add(CheckKind::kNoInstanceDict, object, key); }
void Program::check_length(SourceId source, Py_ssize_t length) {
  add(CheckKind::kLength, source).index = static_cast<std::int32_t>(length);
}
void Program::check_keys(SourceId dict, PyObject* dict_object) {
  add(CheckKind::kKeys, dict, keys_in_order(dict_object).get());
}
void Program::check_set(SourceId source, PyObject* set) {
  const Ref items = Ref::steal(PySequence_List(set)), by_item = Ref::steal(PyDict_New());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); i++) PyDict_SetItem(by_item.get(), PyList_GET_ITEM(items.get(), i), PyList_GET_ITEM(items.get(), i));
  add(CheckKind::kSetItems, source, by_item.get());
}
void Program::check_set_in_order(SourceId source, PyObject* set) { add(CheckKind::kSetItems, source, Ref::steal(PySequence_Tuple(set)).get()); }
std::uint64_t Program::check_tensor(SourceId source, const at::Tensor& tensor, std::uint64_t open) {
  facts_.push_back(TensorFacts::of(tensor));
  if (open != 0) facts_.back().open_sizes(open);
  add(CheckKind::kTensor, source).index = static_cast<std::int32_t>(facts_.size() - 1);
  return facts_.back().open;
}
std::uint64_t Program::open_of(SourceId tensor) const {
  std::uint64_t open = 0;
  for (const Step& step : steps_) {
    if (step.kind == CheckKind::kTensor && step.source == tensor) open |= facts_[static_cast<std::size_t>(step.index)].open;
  }
  return open;
}

void Program::close_ones() {
  for (TensorFacts& facts : facts_) facts.close_ones();
}
Program::Root Program::root_of(SourceId id) const {
  const Source* source = &sources_[static_cast<std::size_t>(id)];
  while (source->kind != SourceKind::kLocal && source->kind != SourceKind::kStack && source->kind != SourceKind::kFrameFunction && source->parent != kNoSource)
    source = &sources_[static_cast<std::size_t>(source->parent)];
  return {source->kind, source->parent, source->index};
}

bool Program::is_of_instance(SourceId source) const {
  for (;; source = sources_[static_cast<std::size_t>(source)].parent) {
    switch (kind(source)) {
      case SourceKind::kInstanceDict: return true;
      // The parents of these are frames, or nothing.
      case SourceKind::kLocal:
      case SourceKind::kStack:
      case SourceKind::kFrameFunction:
      case SourceKind::kModules:
      case SourceKind::kConstant: return false;
      default: break;
    }
  }
}
void Program::check_same(SourceId a, SourceId b, bool same) {
  add(same ? CheckKind::kSame : CheckKind::kNotSame, a).index = b;
}
void Program::check_distinct(std::vector<SourceId> written, std::vector<SourceId> others) {
  groups_.push_back({std::move(written), std::move(others)});
  add(CheckKind::kDistinct, groups_.back().written[0]).index = static_cast<std::int32_t>(groups_.size() - 1);
}

const char* Program::place_of(SourceId source, const std::vector<PyObject*>& registers) const {
  // An object that has no dict yet gets one of its own: an address inside the object, which may be a dict itself, stands for it.
  const Source& dict = sources_[static_cast<std::size_t>(source)];
  auto* found = reinterpret_cast<const char*>(registers[static_cast<std::size_t>(source)]);
  if (found != nullptr || dict.kind != SourceKind::kInstanceDict) return found;
  auto* owner = reinterpret_cast<const char*>(registers[static_cast<std::size_t>(dict.parent)]);
  return owner ? owner + 1 : nullptr;
}

bool Program::are_distinct(const Group& group, const std::vector<PyObject*>& registers) const {
  std::vector<const char*> written;
  for (SourceId source : group.written) written.push_back(place_of(source, registers));
  std::sort(written.begin(), written.end());
  if (written[0] == nullptr || std::adjacent_find(written.begin(), written.end()) != written.end()) return false;
  return std::none_of(group.others.begin(), group.others.end(), [&](SourceId source) { return std::binary_search(written.begin(), written.end(), place_of(source, registers)); });
}

void Program::check_null(SourceId source) { add(CheckKind::kNull, source); }

void Program::truncate(std::size_t steps) {
  // Sources whose read is cut off stay known by path but must be read again: forget their paths.
  for (std::size_t i = steps; i < steps_.size(); i++) {
    if (steps_[i].kind == CheckKind::kIsType) types_[static_cast<std::size_t>(steps_[i].index)].held = false;
    if (steps_[i].kind != CheckKind::kRead) continue;
    for (auto at = paths_.begin(); at != paths_.end(); ++at) {
      if (at->second == steps_[i].source) {
        paths_.erase(at);
        break;
      }
    }
  }
  steps_.resize(steps);
}

void Program::drop_repeated() {
  std::set<std::tuple<CheckKind, SourceId, std::int32_t, const void*>> known;
  std::multimap<SourceId, PyObject*> sets;
  auto is_repeated = [&](const Step& step) {
    if (step.kind == CheckKind::kRead) return false;
    if (step.kind != CheckKind::kSetItems) return !known.emplace(step.kind, step.source, step.index, step.object.get()).second;
    const auto [first, last] = sets.equal_range(step.source);
    if (std::any_of(first, last, [&](const auto& before) { return expects_same_items(before.second, step.object.get()); })) return true;
    sets.emplace(step.source, step.object.get());
    return false;
  };
  std::erase_if(steps_, is_repeated);
}

PyObject* Program::load(const Source& source, const std::vector<EntryFrame>& frames,
                        const std::vector<PyObject*>& registers) const {
  auto parent = [&]() -> PyObject* {
    return source.parent == kNoSource ? nullptr : registers[static_cast<std::size_t>(source.parent)];
  };
  auto frame = [&]() -> const EntryFrame& { return frames[static_cast<std::size_t>(source.parent)]; };
  switch (source.kind) {
    case SourceKind::kLocal: return frame().frame->localsplus[source.index];
    case SourceKind::kStack: return frame().stack[source.index];
    case SourceKind::kFrameFunction: return frame().frame->function;
    case SourceKind::kModules: return PyImport_GetModuleDict();
    case SourceKind::kConstant: return source.key.get();
    default: break;
  }
  PyObject* object = parent();
  if (object == nullptr) return nullptr;
  switch (source.kind) {
    case SourceKind::kInstanceDict: return instance_dict(object);
    case SourceKind::kModuleDict: return PyModule_Check(object) ? PyModule_GetDict(object) : nullptr;
    case SourceKind::kDictItem: {
      if (!PyDict_Check(object)) return nullptr;
      PyObject* item = PyDict_GetItemWithError(object, source.key.get());
      if (item == nullptr) PyErr_Clear();
      return item;
    }
    case SourceKind::kSequenceItem:
      if (PyTuple_Check(object)) return source.index < PyTuple_GET_SIZE(object) ? PyTuple_GET_ITEM(object, source.index) : nullptr;
      if (PyList_Check(object)) return source.index < PyList_GET_SIZE(object) ? PyList_GET_ITEM(object, source.index) : nullptr;
      return nullptr;
    case SourceKind::kItemAt: {
      PyObject* key = registers[static_cast<std::size_t>(source.index)];
      const bool sequence = (PyTuple_CheckExact(object) || PyList_CheckExact(object)) && key && PyLong_CheckExact(key);
      const Py_ssize_t at = sequence ? PyLong_AsSsize_t(key) : -1;
      if (sequence && at == -1) PyErr_Clear();
      return at >= 0 && at < Py_SIZE(object) ? PySequence_Fast_ITEMS(object)[at] : nullptr;
    }
    case SourceKind::kCellContents: return PyCell_Check(object) ? PyCell_GET(object) : nullptr;
    case SourceKind::kFunctionClosure: {
      PyObject* closure = PyFunction_Check(object) ? PyFunction_GET_CLOSURE(object) : nullptr;
      return closure && source.index < PyTuple_GET_SIZE(closure) ? PyTuple_GET_ITEM(closure, source.index) : nullptr;
    }
    case SourceKind::kFunctionDefaults: return PyFunction_Check(object) ? PyFunction_GET_DEFAULTS(object) : nullptr;
    case SourceKind::kFunctionKeywordDefaults: return PyFunction_Check(object) ? PyFunction_GET_KW_DEFAULTS(object) : nullptr;
    case SourceKind::kFunctionGlobals: return PyFunction_Check(object) ? PyFunction_GET_GLOBALS(object) : nullptr;
    case SourceKind::kFunctionBuiltins:
      return PyFunction_Check(object) ? reinterpret_cast<PyFunctionObject*>(object)->func_builtins : nullptr;
    case SourceKind::kMethodFunction: return PyMethod_Check(object) ? PyMethod_GET_FUNCTION(object) : nullptr;
    case SourceKind::kMethodSelf: return PyMethod_Check(object) ? PyMethod_GET_SELF(object) : nullptr;
    case SourceKind::kTypeOf: return reinterpret_cast<PyObject*>(Py_TYPE(object));
    case SourceKind::kTypeAttribute:
      return PyType_Check(object) ? _PyType_Lookup(reinterpret_cast<PyTypeObject*>(object), source.key.get()) : nullptr;
    case SourceKind::kSuperAttribute:
      return PyType_Check(object) ? lookup_behind(reinterpret_cast<PyTypeObject*>(object),
                                                  reinterpret_cast<PyTypeObject*>(source.aux.get()), source.key.get())
                                  : nullptr;
    case SourceKind::kContextValue: {
      PyObject* value = nullptr;
      if (!PyContextVar_CheckExact(object) || PyContextVar_Get(object, nullptr, &value) < 0) {
        PyErr_Clear();
        return nullptr;
      }
      Py_XDECREF(value);  // the context or the variable keeps it
      return value;
    }
    case SourceKind::kFunctionField: {
      if (!PyFunction_Check(object)) return nullptr;
      return function_field(reinterpret_cast<PyFunctionObject*>(object), source.index);
    }
    case SourceKind::kClassField: return PyType_Check(object) ? class_field(reinterpret_cast<PyTypeObject*>(object), source.index) : nullptr;
    case SourceKind::kPropertySetter: return Py_TYPE(object) == &PyProperty_Type ? reinterpret_cast<PyObject**>(object + 1)[1] : nullptr;
    case SourceKind::kReferent: return PyWeakref_CheckRefExact(object) ? PyWeakref_GET_OBJECT(object) : nullptr;
    case SourceKind::kGradient: return gradient_of(object);
    case SourceKind::kCachedCall: return cached_result(object, filled_key(source.key.get(), registers).get());
    case SourceKind::kPropertyGetter:
    case SourceKind::kWrapped: return first_field(object);
    case SourceKind::kMember: return member_value(object, source.aux.get());
    default: return nullptr;
  }
}

bool Program::check(const Step& step, const std::vector<PyObject*>& registers) const {
  PyObject* object = registers[static_cast<std::size_t>(step.source)];
  if (step.kind == CheckKind::kNull) return object == nullptr;
  if (step.kind == CheckKind::kAbsent) {
    if (object == nullptr) return true;
    bool absent = PyDict_Check(object) && PyDict_GetItemWithError(object, step.object.get()) == nullptr;
    PyErr_Clear();
    return absent;
  }
  if (step.kind == CheckKind::kDistinct) return are_distinct(groups_[static_cast<std::size_t>(step.index)], registers);
  if (object == nullptr) return false;
  switch (step.kind) {
    case CheckKind::kType: return type_holds(types_[static_cast<std::size_t>(step.index)], Py_TYPE(object));
    case CheckKind::kIsType:
      return PyType_Check(object) && type_holds(types_[static_cast<std::size_t>(step.index)], reinterpret_cast<PyTypeObject*>(object));
    case CheckKind::kIs: return object == step.object.get();
    case CheckKind::kEquals: return constants_equal(object, step.object.get());
    case CheckKind::kCode: return PyFunction_Check(object) && PyFunction_GET_CODE(object) == step.object.get();
    case CheckKind::kLength: {
      Py_ssize_t length = PyList_Check(object)    ? PyList_GET_SIZE(object)
                          : PyTuple_Check(object) ? PyTuple_GET_SIZE(object)
                          : PyDict_Check(object)  ? PyDict_GET_SIZE(object)
                          : PyAnySet_Check(object) ? PySet_GET_SIZE(object)
                                                   : -1;
      return length == step.index;
    }
    case CheckKind::kSetItems: return has_items(object, step.object.get());
    case CheckKind::kKeys: {
      if (!PyDict_Check(object) || PyDict_GET_SIZE(object) != PyTuple_GET_SIZE(step.object.get())) return false;
      if (PyODict_Check(object)) return same_keys(keys_in_order(object).get(), step.object.get());
      Py_ssize_t at = 0, i = 0;
      PyObject *key, *value;
      while (PyDict_Next(object, &at, &key, &value)) {
        if (!same_key(key, PyTuple_GET_ITEM(step.object.get(), i++))) return false;
      }
      return true;
    }
    case CheckKind::kTensor:
      return is_plain_tensor(object) && facts_[static_cast<std::size_t>(step.index)].holds(tensor_of(object));
    case CheckKind::kPresent: return true;  // it is not null
    case CheckKind::kOutputStream: return is_output_stream(object);
    case CheckKind::kPlainLogger: return is_plain_logger(object);
    case CheckKind::kToken: return dynrun_resets(object, step.object.get());
    case CheckKind::kSame: return object == registers[static_cast<std::size_t>(step.index)];
    case CheckKind::kNotSame: return object != registers[static_cast<std::size_t>(step.index)];
    case CheckKind::kNoInstanceDict: {
      PyObject* dict = instance_dict(object);
      bool absent = dict == nullptr || PyDict_GetItemWithError(dict, step.object.get()) == nullptr;
      PyErr_Clear();
      return absent;
    }
    default: return false;
  }
}

bool Program::run(const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers) const {
  if (!short_forms_) short_forms_ = std::make_shared<ShortForms>();
  Armed::Answer answer = short_forms_->run(*this, frames, registers);
  if (answer != Armed::Answer::kUnknown && !verify_guards) return answer == Armed::Answer::kHolds;
  std::vector<PyObject*> found = verify_guards ? registers : std::vector<PyObject*>();
  bool holds = run_in_full(frames, registers);
  if (answer != Armed::Answer::kUnknown && (holds != (answer == Armed::Answer::kHolds) || (holds && found != registers))) {
    std::fprintf(stderr, "dynrun: --verify: guards that %s by their short form do not by their long form\n%s", holds ? "fail" : "hold", print().c_str());
    std::abort();
  }
  if (holds && answer == Armed::Answer::kUnknown) short_forms_->held(*this, registers);
  return holds;
}

bool Program::run_in_full(const std::vector<EntryFrame>& frames, std::vector<PyObject*>& registers) const {
  registers.assign(sources_.size(), nullptr);
  for (const Step& step : steps_) {
    if (step.kind == CheckKind::kRead) {
      registers[static_cast<std::size_t>(step.source)] = load(sources_[static_cast<std::size_t>(step.source)], frames, registers);
    } else if (!check(step, registers)) {
      return false;
    }
  }
  return true;
}

bool Program::alive() const {
  for (const TypeRecord& record : types_) {
    if (record.weak && PyWeakref_GET_OBJECT(record.weak.get()) == Py_None) return false;
  }
  return true;
}

}  // namespace dynrun::guards
