// Guards in words: what they hold, and which of them failed.

#include "guards/program.h"

#include "guards/torch_python.h"
#include "python/signals.h"
#include "python/text.h"

#include <fmt/format.h>

namespace dynrun::guards {

using python::Ref;

namespace {

std::string shown(PyObject* object) {
  if (object == nullptr) return "nothing";
  if (is_enum_member(object)) {
    // Its repr is Python code, which must not run in the middle of a recording.
    static PyObject* const key = PyUnicode_InternFromString("_name_");
    PyObject* dict = instance_dict(object);
    PyObject* name = dict ? PyDict_GetItem(dict, key) : nullptr;
    return fmt::format("{}.{}", Py_TYPE(object)->tp_name, name && PyUnicode_CheckExact(name) ? python::text_of(name) : "?");
  }
  if (is_constant_like(object)) {
    python::HeldSignals held;
    Ref text = Ref::steal(PyObject_Repr(object));
    if (!text) {
      PyErr_Clear();
      return "?";
    }
    std::string result = python::text_of(text.get());
    return result.size() > 80 ? result.substr(0, 77) + "..." : result;
  }
  if (PyType_Check(object)) return fmt::format("class {}", reinterpret_cast<PyTypeObject*>(object)->tp_name);
  if (PyFunction_Check(object)) return fmt::format("the function {}", python::text_of(reinterpret_cast<PyFunctionObject*>(object)->func_qualname));
  if (PyCode_Check(object)) return fmt::format("the function {}", python::text_of(reinterpret_cast<PyCodeObject*>(object)->co_qualname));
  if (PyCFunction_Check(object)) return fmt::format("the built-in function {}", reinterpret_cast<PyCFunctionObject*>(object)->m_ml->ml_name);
  return fmt::format("a {}", Py_TYPE(object)->tp_name);
}

/// How many items a built-in container holds, without Python code. -1: it is none.
Py_ssize_t item_count(PyObject* object) {
  if (object == nullptr) return -1;
  if (PyList_Check(object) || PyTuple_Check(object)) return Py_SIZE(object);
  if (PyDict_Check(object)) return PyDict_GET_SIZE(object);
  return PyAnySet_Check(object) ? PySet_GET_SIZE(object) : -1;
}

bool is_other_value(PyObject* was, PyObject* now) {
  if (now == nullptr || Py_TYPE(now) != Py_TYPE(was)) return false;
  const bool sizes = is_torch_constant(now) && PyTuple_Check(now) && PyTuple_GET_SIZE(now) == PyTuple_GET_SIZE(was);
  return sizes || PyLong_CheckExact(now) || PyFloat_CheckExact(now) || PyUnicode_CheckExact(now);
}

}  // namespace

/// What was in no dict has come to lie in one: a key, or an attribute of an object.
void Program::describe_appeared(const Step& step, PyObject* now, Miss& miss) const {
  const bool own = step.kind == CheckKind::kNoInstanceDict;
  PyObject* dict = own && now ? instance_dict(now) : now;
  PyObject* value = dict && PyDict_Check(dict) ? PyDict_GetItemWithError(dict, step.object.get()) : nullptr;
  PyErr_Clear();
  const Source& source = sources_[static_cast<std::size_t>(step.source)];
  const bool attribute = own || source.kind == SourceKind::kInstanceDict || source.kind == SourceKind::kModuleDict;
  if (attribute && PyUnicode_CheckExact(step.object.get())) {
    miss.guard = fmt::format("{}.{}", describe(own ? step.source : source.parent), python::text_of(step.object.get()));
    miss.was = "not set on the object";
  } else {
    miss.guard += fmt::format("[{}]", shown(step.object.get()));
    miss.was = "not there";
  }
  miss.now = value ? shown(value) : "there";
}

Miss Program::explain_miss(const std::vector<EntryFrame>& frames) const {
  std::vector<PyObject*> registers(sources_.size(), nullptr);
  for (const Step& step : steps_) {
    if (step.kind == CheckKind::kRead) {
      registers[static_cast<std::size_t>(step.source)] = load(sources_[static_cast<std::size_t>(step.source)], frames, registers);
      continue;
    }
    if (check(step, registers)) continue;
    PyObject* now = registers[static_cast<std::size_t>(step.source)];
    Miss miss{describe(step.source), "", shown(now), step.line};
    switch (step.kind) {
      case CheckKind::kType:
      case CheckKind::kIsType: {
        const TypeRecord& record = types_[static_cast<std::size_t>(step.index)];
        PyTypeObject* type = now == nullptr ? nullptr : step.kind == CheckKind::kType ? Py_TYPE(now) : reinterpret_cast<PyTypeObject*>(now);
        miss.was = record.is_living() ? fmt::format("a {}", record.type->tp_name) : "an object of a class that is gone";
        if (type == record.type) miss.now += " whose class was changed";
        break;
      }
      case CheckKind::kTensor: {
        miss.was = facts_[static_cast<std::size_t>(step.index)].describe();
        if (now && is_plain_tensor(now)) miss.now = TensorFacts::of(tensor_of(now)).describe();
        break;
      }
      case CheckKind::kLength: {
        const Py_ssize_t count = item_count(now);
        miss.was = fmt::format("{} items", step.index);
        miss.now = count < 0 ? "another number of items" : fmt::format("{} items", count);
        break;
      }
      case CheckKind::kAbsent:
      case CheckKind::kNoInstanceDict: describe_appeared(step, now, miss); break;
      case CheckKind::kSetItems: miss.was = "other items"; break;
      case CheckKind::kKeys: miss.was = "other keys"; break;
      case CheckKind::kSame: miss.was = "the same object as " + describe(step.index); break;
      case CheckKind::kNotSame: miss.was = "another object than " + describe(step.index); break;
      case CheckKind::kDistinct: miss.was = "a dict of its own", miss.now = "one that another object has too"; break;
      case CheckKind::kNull: miss.was = "nothing"; break;
      case CheckKind::kPresent: miss.was = "there"; break;
      case CheckKind::kPlainLogger: miss.was = "a logger with handlers of the standard library"; break;
      case CheckKind::kToken: miss.was = "a token that resets its variable"; break;
      case CheckKind::kOutputStream: miss.was = "a plain text stream"; break;
      case CheckKind::kEquals: {
        PyObject* was = step.object.get();
        miss.was = shown(was);
        miss.other_value = is_other_value(was, now);
        break;
      }
      default: miss.was = shown(step.object.get());
    }
    return miss;
  }
  return {"none", "", "", -1};
}

/// Batches, lengths, heights and widths, as layers lay them out: (N, C, ...) of images and the like, (N, L, E) and (N, L) of sequences.
static bool tends_to_vary(const at::Tensor& tensor, std::size_t dimension) {
  const auto rank = static_cast<std::size_t>(tensor.dim());
  if (rank < 2) return true;
  if (rank == 2) return dimension == 0 || !tensor.is_floating_point();
  return dimension != (rank == 3 ? 2 : 1);
}

/// Whether an object of a class that is Python's, as models are, stands where one of another such class stood. Tensors, None and numbers
/// come and go from call to call.
static bool is_other_model(PyTypeObject* was, PyObject* now) {
  auto is_one = [](PyTypeObject* type) {
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) != 0 && !PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(tensor_class()));
  };
  return now != nullptr && Py_TYPE(now) != was && is_one(was) && is_one(Py_TYPE(now));
}

std::unordered_set<std::string> Program::changed_sizes(const std::vector<EntryFrame>& frames) const {
  std::unordered_set<std::string> changed, of_instances;
  bool other_objects = false;  // of another class, or another model: what they hold is no sign of sizes that vary
  bool other_model = false;    // then the inputs' sizes are none either
  std::vector<PyObject*> registers(sources_.size(), nullptr);
  for (const Step& step : steps_) {
    PyObject*& object = registers[static_cast<std::size_t>(step.source)];
    if (step.kind == CheckKind::kRead) object = load(sources_[static_cast<std::size_t>(step.source)], frames, registers);
    const bool of_instance = is_of_instance(step.source);
    if (step.kind == CheckKind::kType && !check(step, registers)) {
      other_objects = true;
      const TypeRecord& record = types_[static_cast<std::size_t>(step.index)];
      other_model = other_model || (record.is_living() && is_other_model(record.type, object));
    }
    if (step.kind != CheckKind::kTensor || object == nullptr || !is_plain_tensor(object)) continue;
    const TensorFacts& facts = facts_[static_cast<std::size_t>(step.index)];
    const at::Tensor& tensor = tensor_of(object);
    if (!facts.same_kind(tensor) || tensor.sizes().size() != facts.sizes.size()) continue;
    std::unordered_set<std::string>& found = of_instance ? of_instances : changed;
    const std::size_t before = found.size();
    for (std::size_t i = 0; i < facts.sizes.size(); i++) {
      const std::int64_t now = tensor.size(static_cast<std::int64_t>(i));
      if (!(facts.open >> i & 1) && now != facts.sizes[i] && now >= 1) found.insert(size_path(describe(step.source), i));
    }
    other_model = other_model || (of_instance && found.size() != before && is_parameter(object));
    if (found.size() == before || of_instance) continue;
    for (std::size_t i = 0; i < facts.sizes.size(); i++) {
      if (tends_to_vary(tensor, i)) changed.insert(size_path(describe(step.source), i));
    }
  }
  if (other_model) return {};
  if (!other_objects) changed.merge(of_instances);
  return changed;
}

std::unordered_set<std::string> Program::changed_values(const std::vector<EntryFrame>& frames) const {
  std::unordered_set<std::string> changed;
  std::vector<PyObject*> registers(sources_.size(), nullptr);
  for (const Step& step : steps_) {
    PyObject*& object = registers[static_cast<std::size_t>(step.source)];
    if (step.kind == CheckKind::kRead) {
      object = load(sources_[static_cast<std::size_t>(step.source)], frames, registers);
      continue;
    }
    if (check(step, registers)) continue;
    if (step.kind == CheckKind::kEquals && is_other_value(step.object.get(), object)) {
      changed.insert(describe(step.source));
      continue;
    }
    if (step.kind != CheckKind::kTensor || object == nullptr || !is_plain_tensor(object)) return {};
    const TensorFacts& facts = facts_[static_cast<std::size_t>(step.index)];
    if (!facts.same_kind(tensor_of(object)) || tensor_of(object).sizes().size() != facts.sizes.size()) return {};
  }
  return changed;
}

std::string Program::describe(SourceId id) const {
  const Source& source = sources_[static_cast<std::size_t>(id)];
  static const char* const kTexts[] = {
#define X(name, text) text,
      DYNRUN_SOURCE_KINDS(X)
#undef X
  };
  std::string result;
  for (const char* c = kTexts[static_cast<int>(source.kind)]; *c; c++) {
    if (*c != '%') {
      result += *c;
      continue;
    }
    c++;
    if (*c == 's') result += describe(source.parent);
    if (*c == 'n') result += describe(source.index);
    if (*c == 'i') result += std::to_string(source.index);
    if (*c == 'k') {
      bool name = source.key && PyUnicode_CheckExact(source.key.get()) && source.kind != SourceKind::kDictItem;
      result += name ? python::text_of(source.key.get()) : shown(source.key.get());
    }
  }
  // The way through an object's dict is how attributes are read: write it so.
  if (source.kind == SourceKind::kDictItem && PyUnicode_CheckExact(source.key.get())) {
    const Source& parent = sources_[static_cast<std::size_t>(source.parent)];
    if (parent.kind == SourceKind::kInstanceDict || parent.kind == SourceKind::kModuleDict)
      return describe(parent.parent) + "." + python::text_of(source.key.get());
    if (parent.kind == SourceKind::kFunctionGlobals || parent.kind == SourceKind::kFunctionBuiltins) return python::text_of(source.key.get());
  }
  return result;
}

std::string Program::print() const {
  static const char* const kNames[] = {"read", "type", "is", "equals", "is type", "code", "absent", "length", "set", "keys", "tensor", "same", "not same", "null", "present", "output stream", "plain logger", "token", "no attribute", "distinct"};
  std::string text;
  for (const Step& step : steps_) {
    if (step.kind == CheckKind::kRead) continue;
    text += fmt::format("{}: {} ", describe(step.source), kNames[static_cast<int>(step.kind)]);
    if (step.kind == CheckKind::kType || step.kind == CheckKind::kIsType) text += types_[static_cast<std::size_t>(step.index)].type->tp_name;
    else if (step.kind == CheckKind::kTensor) text += facts_[static_cast<std::size_t>(step.index)].describe();
    else if (step.kind == CheckKind::kLength) text += std::to_string(step.index);
    else if (step.kind == CheckKind::kSame || step.kind == CheckKind::kNotSame) text += describe(step.index);
    else if (step.object) text += shown(step.object.get());
    text += "\n";
  }
  return text;
}

}  // namespace dynrun::guards
