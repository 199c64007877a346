#include "guards/class_lookup.h"

#include "python/text.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace dynrun::guards {

namespace {

using python::Ref;

/// The function in a static method, class method or property, which cannot be referred to weakly themselves; else the object.
Ref stem_of(PyObject* found) {
  const char* part = nullptr;
  if (Py_IS_TYPE(found, &PyStaticMethod_Type) || Py_IS_TYPE(found, &PyClassMethod_Type)) part = "__func__";
  if (Py_IS_TYPE(found, &PyProperty_Type)) part = "fget";
  Ref stem = part ? Ref::steal(PyObject_GetAttrString(found, part)) : Ref::borrow(found);
  if (!stem) PyErr_Clear();
  return stem ? std::move(stem) : Ref::borrow(found);
}

/// `__eq__ = None` takes a method away; texts, tuples and dicts are said about the class.
bool is_special(PyObject* name, PyObject* value) {
  if (!PyUnicode_CheckExact(name) || PyUnicode_CheckExact(value) || PyTuple_Check(value) || PyDict_Check(value) || PyAnySet_Check(value)) return false;
  if (PyLong_Check(value) || Py_IS_TYPE(value, &PyGetSetDescr_Type) || Py_IS_TYPE(value, &PyMemberDescr_Type)) return false;
  std::string_view text = python::text_of(name);
  return text.size() > 4 && text.substr(0, 2) == "__" && text.substr(text.size() - 2) == "__" && text != "__doc__";
}

/// Whether it can be held without keeping any of the program's objects alive.
bool is_harmless(PyObject* object) {
  if (PyTuple_CheckExact(object)) return std::all_of(&PyTuple_GET_ITEM(object, 0), &PyTuple_GET_ITEM(object, 0) + PyTuple_GET_SIZE(object), is_harmless);
  if (PyObject_TypeCheck(object, &PyWrapperDescr_Type) || PyObject_TypeCheck(object, &PyMethodDescr_Type) || PyObject_TypeCheck(object, &PyGetSetDescr_Type) ||
      PyObject_TypeCheck(object, &PyMemberDescr_Type))
    return !(PyDescr_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
  return object == Py_None || PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyBool_Check(object) || PyBytes_CheckExact(object) || PyComplex_CheckExact(object);
}

/// The class in whose own dict a look-up has found it.
PyTypeObject* owner_of(PyTypeObject* type, PyObject* name, PyObject* found) {
  PyObject* bases = type->tp_mro;
  for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases); i++) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i));
    PyObject* value = base->tp_dict ? PyDict_GetItemWithError(base->tp_dict, name) : nullptr;
    if (value != nullptr) return value == found ? base : nullptr;
  }
  PyErr_Clear();
  return nullptr;
}

/// The names of a class's special methods, each once (borrowed).
std::vector<PyObject*> special_names(PyTypeObject* type) {
  std::vector<PyObject*> names;
  std::unordered_set<PyObject*> seen;
  PyObject* bases = type->tp_mro;
  for (Py_ssize_t i = 0; bases && i < PyTuple_GET_SIZE(bases); i++) {
    auto* base = reinterpret_cast<PyTypeObject*>(PyTuple_GET_ITEM(bases, i));
    if (!(base->tp_flags & Py_TPFLAGS_HEAPTYPE) || !base->tp_dict) continue;
    Py_ssize_t at = 0;
    PyObject *name, *value;
    while (PyDict_Next(base->tp_dict, &at, &name, &value)) {
      if (is_special(name, value) && seen.insert(name).second) names.push_back(name);
    }
  }
  return names;
}

}  // namespace

ClassLookup::ClassLookup(PyTypeObject* type, PyObject* name, PyObject* found) : name_(Ref::borrow(name)) {
  if (found == nullptr) return;
  Ref stem = stem_of(found);
  kind_ = Py_TYPE(found);
  stem_ = stem.get();
  weak_ = Ref::steal(PyWeakref_NewRef(stem_, nullptr));
  if (weak_) return;
  PyErr_Clear();
  if (is_harmless(stem_)) {
    strong_ = std::move(stem);
    return;
  }
  watch_ = std::make_shared<DictWatch>();
  PyTypeObject* owner = owner_of(type, name, found);
  if (owner == nullptr || !watch_->watch_key(owner->tp_dict, name, 0)) stem_ = nullptr, kind_ = &PyBaseObject_Type;  // never again
}

bool ClassLookup::holds(PyTypeObject* type) const {
  PyObject* now = _PyType_Lookup(type, name_.get());
  if (now == nullptr || stem_ == nullptr) return now == nullptr && kind_ == nullptr;
  if (watch_ && !watch_->quiet()) return false;
  if (weak_ && PyWeakref_GET_OBJECT(weak_.get()) != stem_) return false;
  return Py_TYPE(now) == kind_ && stem_of(now).get() == stem_;
}

std::shared_ptr<const SpecialMethods> SpecialMethods::of(PyTypeObject* type) {
  constexpr std::size_t kMany = 1024;
  // A version of a class is never that of another one, or of the class at another time.
  static auto& known = *new std::unordered_map<unsigned, std::weak_ptr<const SpecialMethods>>();
  PyUnstable_Type_AssignVersionTag(type);
  const unsigned version = type->tp_version_tag;
  auto at = known.find(version);
  if (at != known.end()) {
    if (auto methods = at->second.lock()) return methods;
  }
  auto methods = std::make_shared<SpecialMethods>();
  for (PyObject* name : special_names(type)) methods->methods_.emplace_back(type, name, _PyType_Lookup(type, name));
  if (version == 0) return methods;
  if (known.size() > kMany) std::erase_if(known, [](const auto& one) { return one.second.expired(); });
  known[version] = methods;
  return methods;
}

bool SpecialMethods::hold(PyTypeObject* type) const {
  if (special_names(type).size() != methods_.size()) return false;
  return std::all_of(methods_.begin(), methods_.end(), [&](const ClassLookup& method) { return method.holds(type); });
}

}  // namespace dynrun::guards
