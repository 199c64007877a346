// copy.deepcopy of built-in containers, numbers, text and tensors that the segment computed: what it does is known, so that the
// copies are made here and now, and rebuilt by their recipes.
//
// copy.py hands each object to a function by its class, from a table that programs may extend. The functions that it would take
// are guarded to be its own.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <ATen/core/Tensor.h>

#include <string_view>
#include <unordered_map>

namespace dynrun::trace {

using bytecode::Instruction;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

namespace {

/// Whether a function is the one that this module's file defines.
bool is_defined_in(PyObject* function, const char* module_name, const char* qualified_name) {
  if (function == nullptr || !PyFunction_Check(function)) return false;
  auto* made = reinterpret_cast<PyFunctionObject*>(function);
  PyObject* module = PyDict_GetItemString(PyImport_GetModuleDict(), module_name);
  if (module == nullptr || !PyModule_Check(module) || made->func_globals != PyModule_GetDict(module)) return false;
  PyObject* file = PyDict_GetItemString(PyModule_GetDict(module), "__file__");
  auto* code = reinterpret_cast<PyCodeObject*>(made->func_code);
  return file && PyUnicode_Check(file) && PyUnicode_Compare(file, code->co_filename) == 0 &&
         PyUnicode_CompareWithASCIIString(code->co_qualname, qualified_name) == 0;
}

bool is_atom(PyObject* object) {
  return object == Py_None || object == Py_Ellipsis || PyBool_Check(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyComplex_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object);
}

/// A tensor whose copy is that of its whole storage, laid out as it is.
bool is_alone_in_storage(const at::Tensor& tensor) {
  return (tensor.device().is_cpu() || tensor.device().is_cuda()) && tensor.has_storage() && tensor.storage_offset() == 0 && tensor.is_non_overlapping_and_dense() &&
         !tensor.is_conj() && !tensor.is_neg() && tensor.storage().nbytes() == static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
}

}  // namespace

/// One call of deepcopy: what it meets, and what it makes.
struct Recorder::DeepCopy {
  SourceId names = kNoSource, dispatch = kNoSource;  // copy.py's globals; its table of functions by class
  PyObject *globals = nullptr, *table = nullptr;
  std::unordered_map<PyObject*, Ref> made;        // by original: what deepcopy keeps in its memo
  std::unordered_map<void*, PyObject*> storages;  // whose tensor was met
  std::unordered_set<PyTypeObject*> classes;
  std::unordered_map<PyObject*, bool> looked_at;  // containers; false while one is being looked through
};

/// Guards that the module's function of that name is its own.
bool Recorder::learn_helper(DeepCopy& copy, const char* helper) {
  Ref key = Ref::steal(PyUnicode_InternFromString(helper));
  PyObject* found = PyDict_GetItemWithError(copy.globals, key.get());
  return is_defined_in(found, "copy", helper) && learn_external(found, guards_.read(SourceKind::kDictItem, copy.names, 0, key.get()));
}

/// Guards what deepcopy does with objects of this class: copy.py's own function.
bool Recorder::learn_copier(DeepCopy& copy, PyTypeObject* type, const char* function_name) {
  if (!copy.classes.insert(type).second) return true;
  auto* key = reinterpret_cast<PyObject*>(type);
  PyObject* copier = PyDict_GetItemWithError(copy.table, key);
  if (function_name == nullptr) {
    if (copier == nullptr) guards_.check_absent(copy.dispatch, key);
    return copier == nullptr;
  }
  return is_defined_in(copier, "copy", function_name) && learn_external(copier, guards_.read(SourceKind::kDictItem, copy.dispatch, 0, key)) &&
         learn_function_defaults(copier);
}

/// Whether everything that hangs on the object can be copied here. Nothing is changed but guards.
bool Recorder::may_copy(DeepCopy& copy, PyObject* object, int depth) {
  constexpr int kMaxDepth = 20;
  if (depth > kMaxDepth) return false;
  if (is_atom(object)) return learn_copier(copy, Py_TYPE(object), "_deepcopy_atomic");
  if (guards::is_tensor(object)) {
    if (!guards::is_plain_tensor(object) || std::string_view(Py_TYPE(object)->tp_name) != "Tensor") return false;
    const at::Tensor& tensor = guards::tensor_of(object);
    PyObject* attributes = guards::instance_dict(object);
    bool computed = operators_.find(tensor) != graph::kNoValue && outside_tensors_.count(tensor.unsafeGetTensorImpl()) == 0;
    bool plain = computed && !tensor.requires_grad() && !tensor.is_inference() && !tensor.grad().defined() && is_alone_in_storage(tensor) &&
                 (attributes == nullptr || PyDict_GET_SIZE(attributes) == 0);
    // Copies of tensors that share a storage share one too.
    if (!plain || copy.storages.try_emplace(tensor.storage().unsafeGetStorageImpl(), object).first->second != object) return false;
    return learn_copier(copy, Py_TYPE(object), nullptr) && is_defined_in(python_method(object, "__deepcopy__"), "torch._tensor", "Tensor.__deepcopy__");
  }
  auto [seen, first] = copy.looked_at.try_emplace(object, false);
  if (!first) return seen->second;  // not a container that holds itself
  if (!may_copy_items(copy, object, depth)) return false;
  return copy.looked_at[object] = true;
}

bool Recorder::may_copy_items(DeepCopy& copy, PyObject* object, int depth) {
  if (PyList_CheckExact(object) || PyTuple_CheckExact(object)) {
    if (!learn_copier(copy, Py_TYPE(object), PyList_CheckExact(object) ? "_deepcopy_list" : "_deepcopy_tuple")) return false;
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
      if (!may_copy(copy, PyList_Check(object) ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i), depth + 1)) return false;
    }
    return true;
  }
  if (!PyDict_CheckExact(object) || !learn_copier(copy, Py_TYPE(object), "_deepcopy_dict")) return false;
  Py_ssize_t at = 0;
  PyObject *key, *value;
  while (PyDict_Next(object, &at, &key, &value)) {
    if (!is_atom(key) || !may_copy(copy, key, depth + 1) || !may_copy(copy, value, depth + 1)) return false;
  }
  return true;
}

/// Whether the object is copied as classes without a say in it are: another object, with a copy of its attributes that can be made here.
bool Recorder::may_copy_attributes(DeepCopy& copy, PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  PyObject* attributes = guards::instance_dict(object);
  const bool plain = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && type->tp_new == PyBaseObject_Type.tp_new && type->tp_basicsize == PyBaseObject_Type.tp_basicsize && !PyType_Check(object);
  // What deepcopy asks a class for besides: names that are no attributes, and whether attributes are where they are for all.
  static PyObject* const dict_name = PyUnicode_InternFromString("__dict__");
  static PyObject* const slots_name = PyUnicode_InternFromString("__slotnames__");
  PyObject *dict = _PyType_Lookup(type, dict_name), *slots = _PyType_Lookup(type, slots_name);
  if (!dict || Py_TYPE(dict) != &PyGetSetDescr_Type || (slots && !(PyList_CheckExact(slots) && PyList_GET_SIZE(slots) == 0))) return false;
  guards_.note_type_lookup(type, dict_name, dict);
  if (!plain || attributes == nullptr || !PyDict_CheckExact(attributes) || !learn_helper(copy, "_reconstruct")) return false;
  for (const char* text : {"__deepcopy__", "__getattr__", "__setstate__", "__getnewargs__", "__getnewargs_ex__", "__reduce_ex__", "__reduce__", "__getstate__", "__new__"}) {
    Ref name = Ref::steal(PyUnicode_InternFromString(text));
    PyObject* found = _PyType_Lookup(type, name.get());
    if (found != _PyType_Lookup(&PyBaseObject_Type, name.get()) || PyDict_GetItemWithError(attributes, name.get())) return false;
    guards_.note_type_lookup(type, name.get(), found);
  }
  Ref key = Ref::steal(PyUnicode_InternFromString("dispatch_table"));
  SourceId reductions = guards_.read(SourceKind::kDictItem, copy.names, 0, key.get());
  PyObject* table = PyDict_GetItemWithError(copy.globals, key.get());
  if (table == nullptr || !PyDict_CheckExact(table) || PyDict_GetItemWithError(table, reinterpret_cast<PyObject*>(type)) || !learn_external(table, reductions)) return false;
  guards_.check_absent(reductions, reinterpret_cast<PyObject*>(type));
  return learn_copier(copy, type, nullptr) && may_copy(copy, attributes, 0);
}

/// Null when an operator could not be recorded, or with an error set.
Ref Recorder::make_copy(DeepCopy& copy, PyObject* object) {
  if (is_atom(object)) return Ref::borrow(object);
  if (auto known = copy.made.find(object); known != copy.made.end()) return known->second;
  Ref made;
  if (guards::is_tensor(object)) {
    // deepcopy makes a tensor without elements and sets its storage, which counts as a write: so does this.
    const at::Tensor& tensor = guards::tensor_of(object);
    at::Tensor copied = at::empty_like(tensor).copy_(tensor);
    if (operators_.refusal() != Refusal::kNone) return Ref();
    made = Ref::steal(guards::wrap(copied));
  } else if (PyList_CheckExact(object)) {
    made = Ref::steal(PyList_New(0));
    copy.made[object] = made;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object); i++) {
      Ref item = make_copy(copy, PyList_GET_ITEM(object, i));
      if (!item || PyList_Append(made.get(), item.get()) < 0) return Ref();
    }
  } else if (PyTuple_CheckExact(object)) {
    made = Ref::steal(PyTuple_New(PyTuple_GET_SIZE(object)));
    bool same = true;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); i++) {
      Ref item = make_copy(copy, PyTuple_GET_ITEM(object, i));
      if (!item) return Ref();
      same = same && item.get() == PyTuple_GET_ITEM(object, i);
      PyTuple_SET_ITEM(made.get(), i, item.release());
    }
    if (same) return Ref::borrow(object);
  } else {
    made = Ref::steal(PyDict_New());
    copy.made[object] = made;
    Py_ssize_t at = 0;
    PyObject *key, *value;
    while (PyDict_Next(object, &at, &key, &value)) {
      Ref item = make_copy(copy, value);
      if (!item || PyDict_SetItem(made.get(), key, item.get()) < 0) return Ref();
    }
  }
  if (!made) return made;
  if (!guards::is_tensor(object)) learn_fresh(made.get());
  copy.made[object] = made;
  return made;
}

/// A call of copy.deepcopy(x). Nothing: it is to be looked on like any other function.
std::optional<Flow> Recorder::deep_copy(vm::Activation& activation, const Instruction& in, CallSite& site) {
  static PyObject* const name = PyUnicode_InternFromString("deepcopy");
  if (PyUnicode_Compare(reinterpret_cast<PyFunctionObject*>(site.callee)->func_name, name) != 0) return std::nullopt;
  if (site.arguments.size() != 1 || site.keyword_names || !is_defined_in(site.callee, "copy", "deepcopy")) return std::nullopt;
  SourceId function = source_of(site.callee);
  PyObject* table = PyDict_GetItemString(PyFunction_GET_GLOBALS(site.callee), "_deepcopy_dispatch");
  if (function == kNoSource || table == nullptr || !PyDict_CheckExact(table) || is_dirty(table) || written_keys_.count(table) != 0) return std::nullopt;
  if (!resolve_deep(site.arguments[0], 0, true) || !learn_function_defaults(site.callee)) return std::nullopt;
  static PyObject* const table_name = PyUnicode_InternFromString("_deepcopy_dispatch");
  DeepCopy copy;
  copy.names = guards_.read(SourceKind::kFunctionGlobals, function, 0, nullptr);
  copy.dispatch = guards_.read(SourceKind::kDictItem, copy.names, 0, table_name);
  copy.table = table;
  copy.globals = PyFunction_GET_GLOBALS(site.callee);
  if (!learn_external(table, copy.dispatch) || !learn_helper(copy, "_keep_alive") || !learn_helper(copy, "deepcopy")) return std::nullopt;
  if (may_copy_attributes(copy, site.arguments[0])) return call_stand_in(activation, in, site, "deepcopy");
  if (!may_copy(copy, site.arguments[0], 0)) return std::nullopt;
  OperatorRecorder::Mark mark = operators_.mark();
  operators_.start_instruction();
  operators_.set_source(source_line(activation, in));
  Ref made = make_copy(copy, site.arguments[0]);
  if (!made) {
    PyErr_Clear();
    operators_.rewind(mark);
    operators_.clear_refusal();
    return std::nullopt;
  }
  for (int i = 0; i < site.slots; i++) Py_XDECREF(activation.pop());
  activation.push(made.release());
  activation.pc++;
  return Flow::kResume;
}

}  // namespace dynrun::trace
