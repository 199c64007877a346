// Attribute reads and writes: CPython's generic lookup, done step by step so that each step is guarded.

#include "guards/torch_python.h"
#include "python/text.h"
#include "trace/recorder.h"

#include <structmember.h>

#include <algorithm>
#include <map>
#include <array>
#include <string_view>
#include <unordered_set>

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

bool is_data_descriptor(PyObject* descriptor) { return Py_TYPE(descriptor)->tp_descr_set != nullptr; }

/// The class attribute that object defines for `name`: a class without a definition of its own finds this one.
PyObject* object_attribute(PyObject* name) { return _PyType_Lookup(&PyBaseObject_Type, name); }

bool uses_generic_getattr(PyTypeObject* type) {
  static PyObject* getattribute = interned("__getattribute__");
  if (type->tp_getattro == PyObject_GenericGetAttr) return true;
  PyObject* found = _PyType_Lookup(type, getattribute);
  // Built-in containers have a slot wrapper of their own around the same function.
  if (found && Py_TYPE(found) == &PyWrapperDescr_Type && reinterpret_cast<PyWrapperDescrObject*>(found)->d_wrapped == reinterpret_cast<void*>(PyObject_GenericGetAttr))
    return true;
  return found == object_attribute(getattribute) || (PyType_IsSubtype(type, &PyModule_Type) && found == _PyType_Lookup(&PyModule_Type, getattribute));
}

/// `(int | float).__args__`, borrowed; null for any other attribute and object.
PyObject* union_types(PyObject* object, PyObject* name) {
  if (std::string_view(Py_TYPE(object)->tp_name) != "types.UnionType" || PyUnicode_CompareWithASCIIString(name, "__args__") != 0) return nullptr;
  PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
  if (!found || Py_TYPE(found) != &PyMemberDescr_Type) return nullptr;
  return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + reinterpret_cast<PyMemberDescrObject*>(found)->d_member->offset);
}

bool is_simple_getset(const char* name) {
  static const std::unordered_set<std::string> names = {"__name__", "__qualname__", "__module__", "__doc__", "__class__"};
  return names.count(name) != 0;
}

}  // namespace

/// A property, or one of a subclass that is read as properties are.
static bool is_property(PyObject* descriptor) {
  return PyType_IsSubtype(Py_TYPE(descriptor), &PyProperty_Type) && Py_TYPE(descriptor)->tp_descr_get == PyProperty_Type.tp_descr_get;
}

bool Recorder::is_namespace(PyTypeObject* type) {
  static const python::Kept simple_namespace = import_path("types:SimpleNamespace");
  return reinterpret_cast<PyObject*>(type) == simple_namespace.get();
}

bool Recorder::holds_attributes(PyTypeObject* type) { return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) || is_namespace(type); }

/// A value found on a class: binds it as the lookup would. `owner` is the instance, or the class itself.
Recorder::Attribute Recorder::class_value(PyObject* owner, PyTypeObject* type, PyObject* name, PyObject* found, SourceId* source,
                                            PyObject** getter) {
  guards_.note_type_lookup(type, name, found);
  bool on_instance = reinterpret_cast<PyObject*>(type) != owner;
  SourceId class_source = on_instance ? type_source(owner) : source_of(owner);
  if (class_source == kNoSource) return Attribute::kUnknown;
  SourceId path = guards_.read(SourceKind::kTypeAttribute, class_source, 0, name);
  if (PyFunction_Check(found) || Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type) {
    if (!learn_external(found, path)) return Attribute::kUnknown;
    *source = on_instance ? kNoSource : path;
    return on_instance ? Attribute::kRun : Attribute::kValue;
  }
  if (Py_TYPE(found) == &PyStaticMethod_Type || Py_TYPE(found) == &PyClassMethod_Type) {
    SourceId inner = guards_.read(SourceKind::kWrapped, path, 0, nullptr);
    PyObject* function = *reinterpret_cast<PyObject**>(found + 1);
    if (!learn_external(function, inner)) return Attribute::kUnknown;
    if (Py_TYPE(found) == &PyClassMethod_Type && on_instance &&
        !learn_external(reinterpret_cast<PyObject*>(type), class_source))
      return Attribute::kUnknown;
    return Attribute::kRun;
  }
  if (std::string_view(Py_TYPE(found)->tp_name) == "functools._lru_cache_wrapper") {
    // Bound as a method is.
    *source = on_instance ? kNoSource : path;
    return learn_external(found, path) ? (on_instance ? Attribute::kRun : Attribute::kValue) : Attribute::kUnknown;
  }
  if (Py_TYPE(found) == &PyClassMethodDescr_Type) return learn_external(found, path) ? Attribute::kRun : Attribute::kUnknown;
  if (getter && Py_TYPE(found)->tp_descr_get != nullptr && (Py_TYPE(found)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !PyType_Check(found)) {
    // A descriptor of Python code: functools.cached_property, functools.partialmethod.
    if (PyObject* get = python_method(found, "__get__", path)) {
      *getter = get;
      return Attribute::kCallDescriptor;
    }
  }
  if (Py_TYPE(found)->tp_descr_get != nullptr && !PyType_Check(found) && !PyCFunction_Check(found)) return Attribute::kUnknown;
  *source = path;
  return learn_external(found, path) ? Attribute::kValue : Attribute::kUnknown;
}

Recorder::Attribute Recorder::look_up_instance(PyObject* object, PyObject* name, PyObject** getter, SourceId* source, bool raw) {
  static PyObject* getattr_name = interned("__getattr__");
  static PyObject* dict_name = interned("__dict__");
  PyTypeObject* type = Py_TYPE(object);
  if (!raw && !uses_generic_getattr(type)) {
    // A __getattribute__ of the class's own; with a __getattr__ behind it two calls would be one instruction.
    PyObject* own = python_method(object, "__getattribute__");
    guards_.note_type_lookup(type, getattr_name, _PyType_Lookup(type, getattr_name));
    if (own == nullptr || _PyType_Lookup(type, getattr_name) != nullptr) return Attribute::kUnknown;
    *getter = own;
    return Attribute::kCallGetattr;
  }
  SourceId owner = source_of(object);
  PyObject* found = _PyType_Lookup(type, name);
  if (found != nullptr && is_data_descriptor(found)) {
    guards_.note_type_lookup(type, name, found);
    if (is_property(found)) {
      SourceId path = guards_.read(SourceKind::kTypeAttribute, type_source(object), 0, name);
      PyObject* function = *reinterpret_cast<PyObject**>(found + 1);
      if (function == nullptr || !PyFunction_Check(function)) return Attribute::kUnknown;
      if (!learn_external(function, guards_.read(SourceKind::kPropertyGetter, path, 0, nullptr))) return Attribute::kUnknown;
      *getter = function;
      return Attribute::kCallGetter;
    }
    if (PyObject* get = python_method(found, "__get__", guards_.read(SourceKind::kTypeAttribute, type_source(object), 0, name))) {
      *getter = get;
      return Attribute::kCallDescriptor;
    }
    if (Py_ssize_t field = tuple_field(found); field >= 0 && PyTuple_Check(object) && field < PyTuple_GET_SIZE(object)) {
      PyObject* value = PyTuple_GET_ITEM(object, field);
      if (owner == kNoSource) return resolve(value) ? Attribute::kValue : Attribute::kUnknown;
      *source = guards_.read(SourceKind::kSequenceItem, owner, static_cast<std::int32_t>(field), nullptr);
      return learn_external(value, *source) ? Attribute::kValue : Attribute::kUnknown;
    }
    if (PyExceptionInstance_Check(object) && is_fresh(object) && Py_TYPE(found) == &PyGetSetDescr_Type && PyUnicode_CompareWithASCIIString(name, "args") == 0)
      return Attribute::kRun;
    if (Py_TYPE(found) == &PyMemberDescr_Type) {
      PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
      if (member->type != T_OBJECT_EX && member->type != T_OBJECT) return Attribute::kUnknown;
      PyObject* value = *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + member->offset);
      if (value == nullptr) return Attribute::kUnknown;
      if (owner == kNoSource || was_written(object, name)) return resolve(value) ? Attribute::kValue : Attribute::kUnknown;
      *source = guards_.read(SourceKind::kMember, owner, 0, name, found);
      return learn_external(value, *source) ? Attribute::kValue : Attribute::kUnknown;
    }
    if (name == dict_name || PyUnicode_Compare(name, dict_name) == 0) {
      PyObject* dict = guards::instance_dict(object);
      if (dict == nullptr) return Attribute::kUnknown;
      if (owner == kNoSource) {
        learn_fresh(dict);
        return Attribute::kValue;
      }
      *source = guards_.read(SourceKind::kInstanceDict, owner, 0, nullptr);
      return learn_external(dict, *source) ? Attribute::kValue : Attribute::kUnknown;
    }
    if (Py_TYPE(found) == &PyGetSetDescr_Type && is_simple_getset(python::text_of(name)) && name == interned("__class__")) {
      *source = type_source(object);
      return *source != kNoSource && learn_external(reinterpret_cast<PyObject*>(type), *source) ? Attribute::kValue : Attribute::kUnknown;
    }
    return Attribute::kUnknown;
  }
  guards_.note_type_lookup(type, name, found);
  PyObject* dict = guards::instance_dict(object);
  PyObject* value = dict ? PyDict_GetItemWithError(dict, name) : nullptr;
  if (value != nullptr) {
    if (owner == kNoSource || was_written(dict, name)) return resolve(value) ? Attribute::kValue : Attribute::kUnknown;
    SourceId path = PyModule_Check(object) ? guards_.read(SourceKind::kModuleDict, owner, 0, nullptr)
                                           : guards_.read(SourceKind::kInstanceDict, owner, 0, nullptr);
    *source = guards_.read(SourceKind::kDictItem, path, 0, name);
    return learn_external(value, *source) ? Attribute::kValue : Attribute::kUnknown;
  }
  if (owner != kNoSource && (dict != nullptr || PyType_HasFeature(type, Py_TPFLAGS_MANAGED_DICT))) guards_.check_no_instance_attribute(owner, name);
  if (found != nullptr) return class_value(object, type, name, found, source, getter);
  if (raw) return Attribute::kMissing;
  PyObject* fallback = _PyType_Lookup(type, getattr_name);
  guards_.note_type_lookup(type, getattr_name, fallback);
  if (fallback == nullptr) return PyModule_Check(object) ? Attribute::kUnknown : Attribute::kMissing;
  if (!PyFunction_Check(fallback)) return Attribute::kUnknown;
  if (!learn_external(fallback, guards_.read(SourceKind::kTypeAttribute, type_source(object), 0, getattr_name))) return Attribute::kUnknown;
  *getter = fallback;
  return Attribute::kCallGetattr;
}

/// `__name__`, `__qualname__`, `__module__` and `__doc__` of a class from outside: to be set without the class counting as another.
bool Recorder::learn_class_field(PyTypeObject* type, const std::string& name) {
  static const std::array<std::string_view, 4> fields = {"__name__", "__qualname__", "__module__", "__doc__"};
  const auto index = std::find(fields.begin(), fields.end(), name) - fields.begin();
  const SourceId source = source_of(reinterpret_cast<PyObject*>(type));
  if (index == 4 || source == kNoSource || !(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) return true;
  PyObject* value = guards::class_field(type, static_cast<int>(index));
  if (value == nullptr || !guards::is_constant_like(value)) return false;
  Ref key = Ref::steal(PyUnicode_InternFromString(name.c_str()));
  return learn_external(value, guards_.read(SourceKind::kClassField, source, static_cast<std::int32_t>(index), key.get()));
}

/// The class stays one of its metaclass.
void Recorder::keep_metaclass(PyTypeObject* type) {
  auto* object = reinterpret_cast<PyObject*>(type);
  if ((Py_TYPE(object)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE) || is_fresh(object)) return;
  const SourceId source = source_of(object);
  guards_.check_type(source == kNoSource ? guards_.constant(object) : source, Py_TYPE(object));
}

/// A class that hashes and compares by identity, as its metaclass says and will say.
bool Recorder::stays_plain_class(PyObject* object) {
  if (!is_plain_class(object) || !resolve(object)) return false;
  keep_metaclass(reinterpret_cast<PyTypeObject*>(object));
  return true;
}

/// The same of one that guards may hold.
bool Recorder::is_class_key(PyObject* object) {
  return PyType_Check(object) && is_global_class(reinterpret_cast<PyTypeObject*>(object)) && stays_plain_class(object);
}

/// Neither a class nor its metaclass has the attribute.
Recorder::Attribute Recorder::miss_on_class(PyTypeObject* type, PyObject* name) {
  static PyObject* getattr_name = interned("__getattr__");
  PyTypeObject* meta = Py_TYPE(type);
  const SourceId source = source_of(reinterpret_cast<PyObject*>(type));
  if (_PyType_Lookup(meta, getattr_name) != nullptr || (source == kNoSource && !is_global_class(type))) return Attribute::kUnknown;
  guards_.note_type_lookup(meta, getattr_name, nullptr);
  guards_.note_type_lookup(meta, name, nullptr);
  guards_.note_type_lookup(type, name, nullptr);
  if (source != kNoSource) guards_.check_is_type(source, type);
  else guards_.require_special_methods(type);
  return Attribute::kMissing;
}

Recorder::Attribute Recorder::look_up_class(PyTypeObject* type, PyObject* name, PyObject** getter, SourceId* source) {
  auto* object = reinterpret_cast<PyObject*>(type);
  PyTypeObject* meta = Py_TYPE(object);
  static PyObject* getattribute = interned("__getattribute__");
  if (_PyType_Lookup(meta, getattribute) != _PyType_Lookup(&PyType_Type, getattribute)) return Attribute::kUnknown;
  keep_metaclass(type);
  PyObject* on_meta = _PyType_Lookup(meta, name);
  if (on_meta != nullptr && Py_TYPE(on_meta) == &PyProperty_Type && type_source(object) != kNoSource) {
    PyObject* function = *reinterpret_cast<PyObject**>(on_meta + 1);
    guards_.note_type_lookup(meta, name, on_meta);
    SourceId path = guards_.read(SourceKind::kTypeAttribute, type_source(object), 0, name);
    if (!function || !PyFunction_Check(function) || !learn_external(function, guards_.read(SourceKind::kPropertyGetter, path, 0, nullptr)))
      return Attribute::kUnknown;
    *getter = function;
    return Attribute::kCallGetter;
  }
  if (on_meta != nullptr && is_data_descriptor(on_meta)) {
    if (!is_simple_getset(python::text_of(name)) || Py_TYPE(on_meta) != &PyGetSetDescr_Type) return Attribute::kUnknown;
    return learn_class_field(type, python::text_of(name)) ? Attribute::kRun : Attribute::kUnknown;
  }
  PyObject* found = _PyType_Lookup(type, name);
  if (found == nullptr) return on_meta == nullptr ? miss_on_class(type, name) : Attribute::kUnknown;
  if (Py_TYPE(found) == &PyMemberDescr_Type || Py_TYPE(found) == &PyGetSetDescr_Type) return Attribute::kUnknown;
  if (is_property(found)) {  // itself
    if (source_of(object) == kNoSource) return Attribute::kUnknown;
    guards_.note_type_lookup(type, name, found);
    *source = guards_.read(SourceKind::kTypeAttribute, source_of(object), 0, name);
    return learn_external(found, *source) ? Attribute::kValue : Attribute::kUnknown;
  }
  return class_value(object, type, name, found, source, getter);
}

Recorder::Attribute Recorder::look_up_tensor(PyObject* tensor, PyObject* name, PyObject** getter, SourceId* source) {
  PyTypeObject* type = Py_TYPE(tensor);
  PyObject* found = _PyType_Lookup(type, name);
  if (found != nullptr && found == _PyType_Lookup(&PyBaseObject_Type, name) && PyUnicode_CompareWithASCIIString(name, "__class__") == 0) return Attribute::kRun;
  if (found != nullptr && is_data_descriptor(found)) {
    guards_.note_type_lookup(type, name, found);
    if (PyUnicode_CompareWithASCIIString(name, "grad") == 0 && Py_TYPE(found) == &PyGetSetDescr_Type) return look_up_gradient(tensor, name, source);
    if (!is_type_of_unsized(tensor, name)) return Attribute::kUnknown;
    // A write to a view makes its base require grad: how the two lie to each other is checked of inputs.
    const bool by_history = PyUnicode_CompareWithASCIIString(name, "requires_grad") == 0 || PyUnicode_CompareWithASCIIString(name, "is_leaf") == 0;
    if (by_history && operators_.wrote_outside() && resolve(tensor)) operators_.value_of(guards::tensor_of(tensor));
    return classify_attribute(found).call_class == CallClass::kOpaque ? Attribute::kUnknown : Attribute::kRun;
  }
  PyObject* dict = guards::instance_dict(tensor);
  if (dict != nullptr && PyDict_GetItemWithError(dict, name) != nullptr) return Attribute::kUnknown;
  if (SourceId owner = source_of(tensor); owner != kNoSource) guards_.check_no_instance_attribute(owner, name);
  guards_.note_type_lookup(type, name, found);
  if (found == nullptr) return Attribute::kMissing;
  if (PyFunction_Check(found)) {
    resolve(reinterpret_cast<PyObject*>(type));
    SourceId class_source = source_of(reinterpret_cast<PyObject*>(type));
    if (class_source == kNoSource) {
      // The tensor classes live as long as torch does.
      class_source = guards_.constant(reinterpret_cast<PyObject*>(type));
      learn_external(reinterpret_cast<PyObject*>(type), class_source);
    }
    if (!learn_external(found, guards_.read(SourceKind::kTypeAttribute, class_source, 0, name))) return Attribute::kUnknown;
    return Attribute::kRun;
  }
  (void)getter, (void)source;
  if (Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type) return Attribute::kRun;
  return Attribute::kUnknown;
}

Recorder::Attribute Recorder::look_up_function(PyObject* function, PyObject* name, PyObject** getter, SourceId* source) {
  const std::string text = python::text_of(name);
  SourceId owner = source_of(function);
  if (text == "__code__" || text == "__class__") return Attribute::kRun;
  if (text == "__defaults__" || text == "__kwdefaults__") return learn_function_defaults(function) ? Attribute::kRun : Attribute::kUnknown;
  static const std::map<std::string, guards::FunctionField> fields = {
      {"__name__", guards::FunctionField::kName}, {"__qualname__", guards::FunctionField::kQualifiedName}, {"__annotations__", guards::FunctionField::kAnnotations},
      {"__module__", guards::FunctionField::kModule}, {"__doc__", guards::FunctionField::kDoc}, {"__type_params__", guards::FunctionField::kTypeParameters},
      {"__dict__", guards::FunctionField::kDict}};
  if (const auto field = fields.find(text); field != fields.end()) {
    if (owner == kNoSource) return Attribute::kRun;
    const Ref value = Ref::steal(PyObject_GetAttr(function, name));  // makes the dict where there was none yet
    *source = guards_.read(SourceKind::kFunctionField, owner, static_cast<std::int32_t>(field->second), name);
    PyErr_Clear();
    return value && learn_external(value.get(), *source) ? Attribute::kValue : Attribute::kUnknown;
  }
  PyObject* found = _PyType_Lookup(&PyFunction_Type, name);
  if (found != nullptr && Py_TYPE(found) == &PyGetSetDescr_Type) return Attribute::kUnknown;
  return look_up_instance(function, name, getter, source);
}

Recorder::Attribute Recorder::look_up(PyObject* object, PyObject* name, PyObject** getter, SourceId* source) {
  if (!PyUnicode_CheckExact(name)) return Attribute::kUnknown;
  if (guards::is_plain_tensor(object)) return look_up_tensor(object, name, getter, source);
  if (guards::is_tensor(object)) return Attribute::kUnknown;
  if (is_constant(object)) {
    // Enum members and other constants: what their class gives is fixed with them, unless it is Python code.
    PyObject* found = _PyType_Lookup(Py_TYPE(object), name);
    if (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) return Attribute::kUnknown;
    return found ? Attribute::kRun : Attribute::kMissing;
  }
  if (PyType_Check(object)) return look_up_class(reinterpret_cast<PyTypeObject*>(object), name, getter, source);
  if (PyFunction_Check(object)) return look_up_function(object, name, getter, source);
  if (PyMethod_Check(object)) {
    const std::string text = python::text_of(name);
    bool function = text == "__func__";
    if (!function && text != "__self__") return Attribute::kUnknown;
    PyObject* part = function ? PyMethod_GET_FUNCTION(object) : PyMethod_GET_SELF(object);
    SourceId owner = source_of(object);
    if (owner == kNoSource) return resolve(part) ? Attribute::kValue : Attribute::kUnknown;
    *source = guards_.read(function ? SourceKind::kMethodFunction : SourceKind::kMethodSelf, owner, 0, nullptr);
    return learn_external(part, *source) ? Attribute::kValue : Attribute::kUnknown;
  }
  if (PyMethod_Check(object) || PyCFunction_Check(object)) {
    return PyMethod_Check(object) && is_fresh(object) && PyUnicode_CompareWithASCIIString(name, "__func__") == 0 ? Attribute::kRun
                                                                                                              : Attribute::kUnknown;
  }
  if (is_number_info(object) && resolve(object)) return Attribute::kRun;
  PyTypeObject* type = Py_TYPE(object);
  if (!holds_attributes(type) && !PyModule_Check(object)) {
    if (PyObject* types = union_types(object, name)) {
      const SourceId owner = source_of(object);
      if (owner == kNoSource) return Attribute::kUnknown;
      *source = guards_.read(SourceKind::kMember, owner, 0, name, _PyType_Lookup(type, name));
      return learn_external(types, *source) ? Attribute::kValue : Attribute::kUnknown;
    }
    // Built-in containers, iterators, slices, ranges: methods of an immutable class.
    if (type->tp_getattro != PyObject_GenericGetAttr) return Attribute::kUnknown;
    if (PyCode_Check(object)) return Attribute::kRun;
    PyObject* found = _PyType_Lookup(type, name);
    if (found == nullptr) return Attribute::kUnknown;
    if (PyExceptionInstance_Check(object) && is_fresh(object) && PyUnicode_CompareWithASCIIString(name, "args") == 0) return Attribute::kRun;
    // A field of torch.return_types is an item of the tuple.
    if (PyTuple_Check(object) && Py_TYPE(found) == &PyMemberDescr_Type) return resolve_deep(object) ? Attribute::kRun : Attribute::kUnknown;
    if (Py_TYPE(found) == &PyMethodDescr_Type || Py_TYPE(found) == &PyWrapperDescr_Type || Py_TYPE(found) == &PyClassMethodDescr_Type ||
        Py_TYPE(found) == &PyStaticMethod_Type || PyCFunction_Check(found))
      return Attribute::kRun;
    return (PySlice_Check(object) || Py_TYPE(object) == &PyRange_Type) && resolve(object) && is_fresh(object) ? Attribute::kRun : Attribute::kUnknown;
  }
  return look_up_instance(object, name, getter, source);
}

Flow Recorder::load_attr(vm::Activation& activation, const Instruction& in) {
  PyObject* owner = activation.peek(1);
  PyObject* name = PyTuple_GET_ITEM(activation.code->object->co_names, in.argument >> 1);
  bool method = in.argument & 1;
  auto label = [&] { return std::string(Py_TYPE(owner)->tp_name) + "." + python::text_of(name); };
  if (!resolve(owner)) return cut(BreakId::k_unknown_object, Py_TYPE(owner)->tp_name);
  if (auto done = size_attribute(activation, owner, name, method)) return *done;
  if (auto done = unsized_shape_attribute(activation, owner, name, method)) return *done;
  if (auto done = member_attribute(activation, in, owner, name, method)) return *done;
  if (method && is_open_size(owner)) {  // its methods are C code: the call knows what they look at
    PyObject* of_class = _PyType_Lookup(Py_TYPE(owner), name);
    if (of_class && Py_TYPE(of_class) == &PyMethodDescr_Type) return prepare(activation, in, 1, Then::kLearnTopDeep);
  }
  PyObject* getter = nullptr;
  SourceId source = kNoSource;
  const Attribute found = look_up(owner, name, &getter, &source);
  static PyObject* const getattr_name = interned("__getattr__");
  const bool calls = found == Attribute::kCallGetter || found == Attribute::kCallDescriptor;
  if ((calls && _PyType_Lookup(Py_TYPE(owner), getattr_name) != nullptr) || (found == Attribute::kCallDescriptor && PyType_Check(owner))) {
    // Where it raises AttributeError, the class's __getattr__ is asked: C code does both. Of a class the descriptor gets no instance.
    Flow flow = prepare(activation, in, 1, method ? Then::kLearnTopDeep : Then::kLearnTop);
    pending_.passes_through = records_sizes();
    return flow;
  }
  switch (found) {
    case Attribute::kValue: return Flow::kRun;
    case Attribute::kRun: return prepare(activation, in, 1, method ? Then::kLearnTopDeep : Then::kLearnTop);
    case Attribute::kCallGetter: return push(activation, in, getter, {owner}, 1, nullptr, 1, vm::Continuation::kPushResult, nullptr, method);
    case Attribute::kCallDescriptor: {
      auto* type = reinterpret_cast<PyObject*>(Py_TYPE(owner));
      if (!find(type)) learn_external(type, type_source(owner));
      return push(activation, in, getter, {_PyType_Lookup(Py_TYPE(owner), name), owner, type}, 3, nullptr, 1, vm::Continuation::kPushResult,
                  nullptr, method);
    }
    case Attribute::kCallGetattr:
      return push(activation, in, getter, {owner, name}, 2, nullptr, 1, vm::Continuation::kPushResult, nullptr, method);
    case Attribute::kMissing: return raise(activation, in);
    case Attribute::kUnknown: break;
  }
  return cut(BreakId::k_opaque_operation, label());
}

bool Recorder::plain_setattr(PyTypeObject* type, PyObject* name) {
  static PyObject* setattr_name = interned("__setattr__");
  PyObject* setter = _PyType_Lookup(type, setattr_name);
  guards_.note_type_lookup(type, setattr_name, setter);
  // Exceptions have a slot wrapper of their own around the same function.
  bool generic = setter == object_attribute(setattr_name) || (setter && Py_TYPE(setter) == &PyWrapperDescr_Type && type->tp_setattro == PyObject_GenericSetAttr);
  if (!generic) return false;
  PyObject* found = _PyType_Lookup(type, name);
  guards_.note_type_lookup(type, name, found);
  return found == nullptr || !is_data_descriptor(found) || Py_TYPE(found) == &PyMemberDescr_Type;
}

/// Notes `object.name = value`, done by object.__setattr__. The store itself is the VM's.
bool Recorder::store_attribute(PyObject* object, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(object);
  if (PyFunction_Check(object) && is_fresh(object)) {
    static const std::unordered_set<std::string> kept = {"__module__", "__name__", "__qualname__", "__doc__"};
    // Its own fields are rebuilt with it, as is its __dict__.
    const std::string text = python::text_of(name);
    const bool rebuilt = kept.count(text) != 0 && (value == Py_None || (PyUnicode_CheckExact(value) && is_constant(value)));
    const bool annotations = text == "__annotations__" && PyDict_CheckExact(value) && resolve(value);
    const bool no_parameters = text == "__type_params__" && PyTuple_CheckExact(value) && PyTuple_GET_SIZE(value) == 0;
    if (_PyType_Lookup(type, name) != nullptr && !rebuilt && !annotations && !no_parameters) return false;
    mutations_++;
    return true;
  }
  if (!holds_attributes(type) || guards::is_tensor(object) || PyType_Check(object)) return false;
  PyObject* found = _PyType_Lookup(type, name);
  if (found != nullptr && is_data_descriptor(found) && Py_TYPE(found) != &PyMemberDescr_Type) return false;
  mutations_++;
  if (source_of(object) == kNoSource) return true;
  bool member = found != nullptr && Py_TYPE(found) == &PyMemberDescr_Type;
  PyObject* place = member ? object : guards::instance_dict(object);
  if (place == nullptr) {
    Ref dict = Ref::steal(PyObject_GenericGetDict(object, nullptr));
    place = guards::instance_dict(object);
    if (place == nullptr) return false;
  }
  written_keys_[place].push_back(Ref::borrow(name));
  effects_.push_back({EffectKind::kSetAttribute, Ref::borrow(object), Ref::borrow(name), Ref::borrow(value)});
  return true;
}

/// An attribute of the program's own on a tensor; one that torch.Tensor has is torch's.
bool Recorder::store_on_tensor(PyObject* tensor, PyObject* name, PyObject* value) {
  PyTypeObject* type = Py_TYPE(tensor);
  if (!guards::is_plain_tensor(tensor) || _PyType_Lookup(type, name) != nullptr || !plain_setattr(type, name)) return false;
  guards_.note_type_lookup(type, name, nullptr);
  mutations_++;
  effects_.push_back({EffectKind::kSetAttribute, Ref::borrow(tensor), Ref::borrow(name), Ref::borrow(value)});
  return true;
}

Flow Recorder::store_attr(vm::Activation& activation, const Instruction& in) {
  static PyObject* setattr_name = interned("__setattr__");
  PyObject* owner = activation.peek(1);
  PyObject* value = activation.peek(2);
  PyObject* name = PyTuple_GET_ITEM(activation.code->object->co_names, in.argument);
  auto label = [&] { return std::string(Py_TYPE(owner)->tp_name) + "." + python::text_of(name) + " = ..."; };
  if (!resolve(owner)) return cut(BreakId::k_unknown_object, Py_TYPE(owner)->tp_name);
  if (!resolve(value)) return cut(BreakId::k_unknown_object, Py_TYPE(value)->tp_name);
  if (PyFunction_Check(owner) && store_attribute(owner, name, value)) return prepare(activation, in, 2, Then::kNothing);
  if (store_gradient(owner, name, value)) return prepare(activation, in, 2, Then::kNothing);
  if (store_on_tensor(owner, name, value)) return prepare(activation, in, 2, Then::kNothing);
  if (PyModule_Check(owner) || !holds_attributes(Py_TYPE(owner)) || guards::is_tensor(owner))
    return cut(BreakId::k_opaque_operation, label());
  if (plain_setattr(Py_TYPE(owner), name)) {
    if (store_attribute(owner, name, value)) return prepare(activation, in, 2, Then::kNothing);
    return cut(BreakId::k_opaque_operation, label());
  }
  PyObject* setter = _PyType_Lookup(Py_TYPE(owner), setattr_name);
  if (setter == object_attribute(setattr_name)) {
    if (auto done = store_by_descriptor(activation, in, owner, name, value)) return *done;
  }
  if (setter == nullptr || !PyFunction_Check(setter)) {
    return cut(BreakId::k_opaque_operation, label());
  }
  if (!learn_external(setter, guards_.read(SourceKind::kTypeAttribute, type_source(owner), 0, setattr_name)))
    return cut(BreakId::k_opaque_operation, label());
  return push(activation, in, setter, {owner, name, value}, 3, nullptr, 2, vm::Continuation::kDrop);
}

bool Recorder::has_plain_delattr(PyObject* owner) {
  static PyObject* const name = interned("__delattr__");
  PyObject* deleter = _PyType_Lookup(Py_TYPE(owner), name);
  guards_.note_type_lookup(Py_TYPE(owner), name, deleter);
  return deleter == object_attribute(name) || (deleter && Py_TYPE(deleter) == &PyWrapperDescr_Type && Py_TYPE(owner)->tp_setattro == PyObject_GenericSetAttr);
}

/// Notes that an attribute of a plain object goes, if it has it. The deletion itself is the caller's.
bool Recorder::delete_attribute(PyObject* owner, PyObject* name) {
  PyTypeObject* type = Py_TYPE(owner);
  if (!holds_attributes(type) || guards::is_tensor(owner) || PyType_Check(owner)) return false;
  PyObject* found = _PyType_Lookup(type, name);
  guards_.note_type_lookup(type, name, found);
  PyObject* dict = guards::instance_dict(owner);
  if ((found && is_data_descriptor(found)) || !dict || !PyDict_GetItemWithError(dict, name)) return false;
  mutations_++;
  if (SourceId source = source_of(owner); source != kNoSource) {
    SourceId items = guards_.read(SourceKind::kInstanceDict, source, 0, nullptr);
    if (!was_written(dict, name)) guards_.check_present(guards_.read(SourceKind::kDictItem, items, 0, name));
    written_keys_[dict].push_back(Ref::borrow(name));
    effects_.push_back({EffectKind::kDeleteAttribute, Ref::borrow(owner), Ref::borrow(name), Ref()});
  }
  return true;
}

Flow Recorder::delete_attr(vm::Activation& activation, const Instruction& in) {
  PyObject* owner = activation.peek(1);
  PyObject* name = PyTuple_GET_ITEM(activation.code->object->co_names, in.argument);
  PyTypeObject* type = Py_TYPE(owner);
  auto label = [&] { return std::string("del ") + type->tp_name + "." + python::text_of(name); };
  if (!resolve(owner)) return cut(BreakId::k_unknown_object, type->tp_name);
  if (!holds_attributes(type) || guards::is_tensor(owner) || PyType_Check(owner)) return cut(BreakId::k_opaque_operation, label());
  if (!has_plain_delattr(owner)) {
    PyObject* method = python_method(owner, "__delattr__");
    return method ? push(activation, in, method, {owner, name}, 2, nullptr, 1, vm::Continuation::kDrop) : cut(BreakId::k_opaque_operation, label());
  }
  return delete_attribute(owner, name) ? prepare(activation, in, 1, Then::kNothing) : cut(BreakId::k_opaque_operation, label());
}

Flow Recorder::load_super_attr(vm::Activation& activation, const Instruction& in) {
  PyObject* self = activation.peek(1);
  PyObject* type = activation.peek(2);
  PyObject* name = PyTuple_GET_ITEM(activation.code->object->co_names, in.argument >> 2);
  if (activation.peek(3) != reinterpret_cast<PyObject*>(&PySuper_Type) || !PyType_Check(type) || !resolve(type) || !resolve(self))
    return cut(BreakId::k_opaque_operation, "super()");
  // In a __new__ or a class method; a metaclass's method has a class for its self too.
  bool of_class = PyType_Check(self) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(self), reinterpret_cast<PyTypeObject*>(type));
  PyTypeObject* start = of_class ? reinterpret_cast<PyTypeObject*>(self) : Py_TYPE(self);
  SourceId class_source = of_class ? source_of(self) : type_source(self);
  if (class_source == kNoSource) return cut(BreakId::k_unknown_object, "super()");
  SourceId path = guards_.read(SourceKind::kSuperAttribute, class_source, 0, name, type);
  // Found behind `type` in the MRO of type(self): read again by the guards, and any change to the MRO changes the class.
  guards_.note_type_lookup(start, name, _PyType_Lookup(start, name));
  PyObject* const raw = guards::attribute_behind(start, reinterpret_cast<PyTypeObject*>(type), name);
  if (raw && Py_TYPE(raw) == &PyProperty_Type) {
    PyObject* getter = reinterpret_cast<PyObject**>(raw + 1)[0];
    if (of_class || !getter || !PyFunction_Check(getter) || !learn_external(getter, guards_.read(SourceKind::kPropertyGetter, path, 0, nullptr)))
      return cut(BreakId::k_opaque_operation, "super()");
    return push(activation, in, getter, {self}, 1, nullptr, 3, vm::Continuation::kPushResult, nullptr, in.argument & 1);
  }
  // Python code, which runs when the attribute is read.
  if (raw && Py_TYPE(raw)->tp_descr_get && PyType_HasFeature(Py_TYPE(raw), Py_TPFLAGS_HEAPTYPE)) return cut(BreakId::k_opaque_operation, "super()");
  Ref bound = Ref::steal(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), type, self, nullptr));
  Ref value = bound ? Ref::steal(PyObject_GetAttr(bound.get(), name)) : Ref();
  if (!value) {
    PyErr_Clear();
    return cut(BreakId::k_raise, "no such attribute of super()");
  }
  if (PyMethod_Check(value.get())) {
    if (!learn_external(PyMethod_GET_FUNCTION(value.get()), path)) return cut(BreakId::k_opaque_operation, "super()");
  } else if (of_class && PyFunction_Check(value.get())) {
    if (!learn_external(value.get(), guards_.read(SourceKind::kWrapped, path, 0, nullptr))) return cut(BreakId::k_opaque_operation, "super()");
  } else if (Py_TYPE(value.get()) != &_PyMethodWrapper_Type && !PyCFunction_Check(value.get())) {
    return cut(BreakId::k_opaque_operation, "super()");
  }
  return prepare(activation, in, 3, in.argument & 1 ? Then::kLearnTopDeep : Then::kLearnTop);
}

Flow Recorder::before_with(vm::Activation& activation, const Instruction& in) {
  PyObject* manager = activation.peek(1);
  if (!resolve(manager)) return cut(BreakId::k_unknown_object, Py_TYPE(manager)->tp_name);
  PyObject* enter = python_method(manager, "__enter__");
  PyObject* leave = python_method(manager, "__exit__");
  if (enter == nullptr || leave == nullptr) return cut(BreakId::k_opaque_operation, std::string("with ") + Py_TYPE(manager)->tp_name);
  if (!vm::Machine::is_inlinable(enter) || !learn_function_defaults(enter)) return cut(BreakId::k_opaque_operation, std::string("with ") + Py_TYPE(manager)->tp_name);
  if (is_inference_switch(enter, {manager}) && !may_enter_inference()) return cut(BreakId::k_opaque_call, "torch.inference_mode");
  // The manager on the stack becomes its bound __exit__; __enter__ runs inline.
  Ref bound = Ref::steal(PyMethod_New(leave, manager));
  learn_fresh(bound.get());
  Ref self = Ref::steal(activation.pop());
  activation.push(bound.release());
  return push(activation, in, enter, {self.get()}, 1, nullptr, 0, vm::Continuation::kPushResult);
}

}  // namespace dynrun::trace
