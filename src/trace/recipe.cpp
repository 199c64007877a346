#include "trace/recipe.h"

#include "guards/torch_python.h"
#include "python/compat.h"

namespace dynrun::trace {

using python::Ref;

PyObject* Kitchen::make(RecipeId id) {
  Ref& slot = values_[static_cast<std::size_t>(id)];
  if (slot) return slot.get();
  const RecipeNode& node = book_.nodes[static_cast<std::size_t>(id)];
  PyObject* made = make_new(node, slot);
  if (made == nullptr) return nullptr;
  if (!slot) slot = Ref::steal(made);
  return slot.get();
}

PyObject* Kitchen::make_tuple(const RecipeNode& node) {
  Ref tuple = Ref::steal(PyTuple_New(static_cast<Py_ssize_t>(node.children.size())));
  for (std::size_t i = 0; tuple && i < node.children.size(); i++) {
    PyObject* item = make(node.children[i]);
    if (item == nullptr) return nullptr;
    PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), Py_NewRef(item));
  }
  return tuple.release();
}

bool Kitchen::fill_dict(PyObject* dict, const RecipeNode& node) {
  for (std::size_t i = 0; i + 1 < node.children.size(); i += 2) {
    PyObject* key = make(node.children[i]);
    PyObject* value = key ? make(node.children[i + 1]) : nullptr;
    if (value == nullptr) return false;
    int failed = PyODict_Check(dict) ? PyODict_SetItem(dict, key, value) : PyDict_SetItem(dict, key, value);
    if (failed) return false;
  }
  return true;
}

namespace {

/// Whether a heap class adds nothing to its instances but slots: a class of C code has fields of its own.
bool is_written_in_python(PyTypeObject* type) {
  Ref dict = Ref::steal(PyType_GetDict(type));
  Py_ssize_t at = 0, slots = 0;
  PyObject *key, *value;
  while (PyDict_Next(dict.get(), &at, &key, &value)) slots += Py_TYPE(value) == &PyMemberDescr_Type;
  Py_ssize_t added = type->tp_basicsize - (type->tp_base ? type->tp_base->tp_basicsize : 0);
  // A base without a __dict__ or weak references (int, tuple) gets a field for each.
  return added >= 0 && added <= static_cast<Py_ssize_t>(sizeof(PyObject*)) * (slots + (type->tp_dictoffset > 0) + (type->tp_weaklistoffset > 0));
}

}  // namespace

PyTypeObject* builtin_base(PyTypeObject* type) {
  while (type && (type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    if (!is_written_in_python(type)) return nullptr;
    type = type->tp_base;
  }
  return type;
}

PyObject* Kitchen::make_instance(const RecipeNode& node, Ref& slot) {
  auto* type = reinterpret_cast<PyTypeObject*>(node.object.get());
  Ref empty = Ref::steal(PyTuple_New(0));
  PyTypeObject* base = type;  // the recording knows the classes; a __new__ of Python code has had its say
  while (base->tp_flags & Py_TPFLAGS_HEAPTYPE) base = base->tp_base;
  slot = Ref::steal(base->tp_new(type, empty.get(), nullptr));
  if (!slot) return nullptr;
  PyObject* object = slot.get();
  if (node.children[1] != kNullRecipe && PyList_Check(object)) {
    PyObject* items = make(node.children[1]);
    if (items == nullptr || PyList_SetSlice(object, 0, 0, items) < 0) return nullptr;
  } else if (node.children[1] != kNullRecipe && !fill_dict(object, book_.nodes[static_cast<std::size_t>(node.children[1])])) {
    return nullptr;
  }
  if (node.children[0] != kNullRecipe) {
    // Others may hold the dict itself.
    const auto attributes = static_cast<std::size_t>(node.children[0]);
    if (values_[attributes]) {
      if (PyObject_GenericSetDict(object, values_[attributes].get(), nullptr) < 0) return nullptr;
    } else {
      values_[attributes] = Ref::steal(PyObject_GenericGetDict(object, nullptr));
      if (!values_[attributes] || !fill_dict(values_[attributes].get(), book_.nodes[attributes])) return nullptr;
    }
  }
  for (std::size_t i = 0; i < node.names.size(); i++) {
    if (node.children[i + 2] == kNullRecipe) continue;
    PyObject* value = make(node.children[i + 2]);
    if (value == nullptr) return nullptr;
    PyObject* member = node.names[i].get();
    if (Py_TYPE(member)->tp_descr_set(member, object, value) < 0) return nullptr;
  }
  return object;
}

PyObject* Kitchen::make_function(const RecipeNode& node, Ref& slot) {
  PyObject* globals = make(node.children[0]);
  if (globals == nullptr) return nullptr;
  Ref function = Ref::steal(PyFunction_NewWithQualName(node.object.get(), globals, node.names[1].get()));
  if (!function) return nullptr;
  slot = function;  // its closure and attributes may lead back to it
  auto part = [&](int child, int (*set)(PyObject*, PyObject*)) {
    if (node.children[static_cast<std::size_t>(child)] == kNullRecipe) return true;
    PyObject* value = make(node.children[static_cast<std::size_t>(child)]);
    return value != nullptr && set(function.get(), value) == 0;
  };
  if (!part(1, PyFunction_SetDefaults) || !part(2, PyFunction_SetKwDefaults) || !part(3, PyFunction_SetClosure)) return nullptr;
  if (node.children[4] != kNullRecipe) {
    // CPython keeps annotations as a tuple until they are asked for; PyFunction_SetAnnotations takes only a dict.
    PyObject* annotations = make(node.children[4]);
    if (annotations == nullptr) return nullptr;
    reinterpret_cast<PyFunctionObject*>(function.get())->func_annotations = Py_NewRef(annotations);
  }
  auto* fields = reinterpret_cast<PyFunctionObject*>(function.get());
  fields->func_version = reinterpret_cast<PyCodeObject*>(node.object.get())->co_version;  // as MAKE_FUNCTION leaves it
  Py_SETREF(fields->func_name, Py_NewRef(node.names[0].get()));
  for (std::size_t child : {5U, 6U}) {
    PyObject* value = node.children[child] == kNullRecipe ? nullptr : make(node.children[child]);
    if (node.children[child] != kNullRecipe && value == nullptr) return nullptr;
    Py_XSETREF(child == 5U ? fields->func_module : fields->func_doc, Py_XNewRef(value));
  }
  if (node.children[7] != kNullRecipe) {
    Ref attributes = Ref::steal(PyObject_GenericGetDict(function.get(), nullptr));
    if (!attributes || !fill_dict(attributes.get(), book_.nodes[static_cast<std::size_t>(node.children[7])])) return nullptr;
  }
  return function.get();
}

PyObject* Kitchen::make_exception(const RecipeNode& node, Ref& slot) {
  auto* type = reinterpret_cast<PyTypeObject*>(node.object.get());
  auto part = [&](std::size_t child) { return node.children[child] == kNullRecipe ? nullptr : make(node.children[child]); };
  PyObject* arguments = part(0);
  slot = Ref::steal(arguments ? type->tp_new(type, arguments, nullptr) : nullptr);
  if (!slot) return nullptr;
  if (node.children[1] != kNullRecipe) {
    Ref dict = Ref::steal(PyObject_GenericGetDict(slot.get(), nullptr));
    if (!dict || !fill_dict(dict.get(), book_.nodes[static_cast<std::size_t>(node.children[1])])) return nullptr;
  }
  PyObject *cause = part(2), *context = part(3);
  if (PyErr_Occurred()) return nullptr;
  if (cause) PyException_SetCause(slot.get(), Py_NewRef(cause));
  if (context) PyException_SetContext(slot.get(), Py_NewRef(context));
  reinterpret_cast<PyBaseExceptionObject*>(slot.get())->suppress_context = static_cast<char>(node.index);
  return slot.get();
}

PyObject* Kitchen::make_generator(const RecipeNode& node, Ref& slot) {
  PyObject* function = make(node.children[0]);
  slot = Ref::steal(function ? dynrun_new_generator(function) : nullptr);
  if (!slot || node.index < 0) return slot.get();
  std::vector<PyObject*> slots;
  for (std::size_t i = 1; i < node.children.size(); i++) {
    slots.push_back(node.children[i] == kNullRecipe ? nullptr : make(node.children[i]));
    if (node.children[i] != kNullRecipe && slots.back() == nullptr) return nullptr;
  }
  dynrun_place_generator(slot.get(), node.index, node.object.get() == Py_True, slots.data(), static_cast<int>(slots.size()));
  return slot.get();
}

PyObject* Kitchen::make_new(const RecipeNode& node, Ref& slot) {
  switch (node.kind) {
    case RecipeKind::kConstant: return Py_NewRef(node.object.get());
    case RecipeKind::kSource: return Py_NewRef(sources_[static_cast<std::size_t>(node.index)]);
    case RecipeKind::kHost: return Py_NewRef(hosts_[static_cast<std::size_t>(node.index)].get());
    case RecipeKind::kOutput: return guards::wrap(outputs_[static_cast<std::size_t>(node.index)]);
    case RecipeKind::kTuple: {
      Ref tuple = Ref::steal(make_tuple(node));
      if (!tuple || !node.object) return tuple.release();
      Ref arguments = Ref::steal(PyTuple_Pack(1, tuple.get()));
      return PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(node.object.get()), arguments.get(), nullptr);
    }
    case RecipeKind::kStructSequence: {
      Ref tuple = Ref::steal(make_tuple(node));
      return tuple ? PyObject_CallOneArg(node.object.get(), tuple.get()) : nullptr;
    }
    case RecipeKind::kList: {
      slot = Ref::steal(PyList_New(0));
      for (RecipeId child : node.children) {
        PyObject* item = make(child);
        if (item == nullptr || PyList_Append(slot.get(), item) < 0) return nullptr;
      }
      return slot.get();
    }
    case RecipeKind::kSet:
    case RecipeKind::kFrozenSet: {
      slot = Ref::steal(node.kind == RecipeKind::kSet ? PySet_New(nullptr) : PyFrozenSet_New(nullptr));
      for (RecipeId child : node.children) {
        PyObject* item = make(child);
        if (item == nullptr || PySet_Add(slot.get(), item) < 0) return nullptr;
      }
      return slot.get();
    }
    case RecipeKind::kDict:
      slot = Ref::steal(node.object ? PyODict_New() : PyDict_New());
      return slot && fill_dict(slot.get(), node) ? slot.get() : nullptr;
    case RecipeKind::kInstance: return make_instance(node, slot);
    case RecipeKind::kMethod: {
      PyObject* function = make(node.children[0]);
      PyObject* self = function ? make(node.children[1]) : nullptr;
      return self ? PyMethod_New(function, self) : nullptr;
    }
    case RecipeKind::kBuiltinMethod: {
      PyObject* self = make(node.children[0]);
      return self ? PyObject_GetAttr(self, node.object.get()) : nullptr;
    }
    case RecipeKind::kCell: {
      slot = Ref::steal(PyCell_New(nullptr));
      if (node.children[0] == kNullRecipe) return slot.get();
      PyObject* contents = make(node.children[0]);
      if (contents == nullptr || PyCell_Set(slot.get(), contents) < 0) return nullptr;
      return slot.get();
    }
    case RecipeKind::kFunction: return make_function(node, slot);
    case RecipeKind::kGenerator: return make_generator(node, slot);
    case RecipeKind::kException: return make_exception(node, slot);
    case RecipeKind::kIterator: {
      PyObject* container = make(node.children[0]);
      Ref iterator = Ref::steal(container ? PyObject_GetIter(container) : nullptr);
      if (!iterator || !node.object) return iterator.release();
      // What the segment appends to a list from outside is not there yet: __setstate__ would not go behind the end.
      if (PyLong_CheckExact(node.object.get()) && dynrun_place_list_iterator(iterator.get(), PyLong_AsSsize_t(node.object.get()))) return iterator.release();
      Ref done = Ref::steal(PyObject_CallMethod(iterator.get(), "__setstate__", "O", node.object.get()));
      return done ? iterator.release() : nullptr;
    }
    case RecipeKind::kDictIterator: {
      PyObject* dict = make(node.children[0]);
      Ref view = Ref::steal(dict ? PyObject_CallOneArg(node.object.get(), dict) : nullptr);
      Ref iterator = Ref::steal(view ? PyObject_GetIter(view.get()) : nullptr);
      for (std::int32_t i = 0; iterator && i < node.index; i++) {
        if (!Ref::steal(PyIter_Next(iterator.get()))) return nullptr;
      }
      return iterator.release();
    }
    case RecipeKind::kContextToken: {
      PyObject* variable = make(node.children[0]);
      PyObject* value = variable ? make(node.children[1]) : nullptr;
      return value ? PyContextVar_Set(variable, value) : nullptr;
    }
    case RecipeKind::kClass: {
      Ref arguments = Ref::steal(make_tuple(node));
      return arguments ? PyObject_Call(node.object.get(), arguments.get(), nullptr) : nullptr;
    }
    case RecipeKind::kCall: {
      Ref arguments = Ref::steal(make_tuple(node));
      return arguments ? PyObject_Call(node.object.get(), arguments.get(), nullptr) : nullptr;
    }
    case RecipeKind::kSlice: {
      PyObject *start = make(node.children[0]), *stop = make(node.children[1]), *step = make(node.children[2]);
      return start && stop && step ? PySlice_New(start, stop, step) : nullptr;
    }
  }
  return nullptr;
}

}  // namespace dynrun::trace
