// Which objects are one and the same: sets, dicts and comparisons of containers ask it of their items, in C and without Python
// code. Objects that two names led to are guarded as the same where they are met; here those that were not the same are.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <algorithm>
#include <map>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceId;
using python::Ref;

namespace {

constexpr int kDeepest = 8;

/// Functions of C that pass their arguments on, or look at their types and sizes, and compare none of them.
bool compares_nothing(const std::string& name) {
  static const std::unordered_set<std::string_view> names = {
      "list", "tuple", "iter", "zip", "enumerate", "reversed", "len", "type", "callable", "chain", "chain.from_iterable", "repeat", "islice",
      "zip_longest", "product", "tee", "cycle", "pairwise", "batched", "compress", "super", "any", "all", "dict.keys", "dict.values", "dict.items",
      "dict.copy", "list.copy", "list.extend", "list.insert", "list.pop", "list.reverse", "list.clear", "list.__init__", "list.__len__",
      "list.__iter__", "list.__getitem__", "tuple.__len__", "tuple.__iter__", "tuple.__getitem__", "dict.__len__", "dict.__iter__", "deque",
      "deque.append", "deque.appendleft", "deque.extend", "deque.pop", "deque.popleft", "attrgetter", "itemgetter", "methodcaller", "MethodType",
      "method", "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic"};
  return names.count(name) != 0;
}

/// Functions that hash the keys they are given and keep the values.
bool hashes_keys(const std::string& name) {
  static const std::unordered_set<std::string_view> names = {"dict", "OrderedDict", "defaultdict", "dict.update", "OrderedDict.update", "dict.__init__", "OrderedDict.__init__"};
  return names.count(name) != 0;
}

/// Functions that call another one, which may compare what it is given.
bool calls_another(const std::string& name) {
  static const std::unordered_set<std::string_view> names = {"map", "filter", "reduce", "starmap", "accumulate", "filterfalse", "takewhile", "dropwhile", "partial"};
  return names.count(name) != 0;
}

bool is_deque(PyObject* object) { return std::string_view(Py_TYPE(object)->tp_name) == "collections.deque"; }

}  // namespace

bool is_hashed_by_identity(PyObject* object) {
  if (guards::is_plain_tensor(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  return type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

bool is_hashed_by_program(PyObject* object) {
  static PyObject* const hash_name = PyUnicode_InternFromString("__hash__");
  if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) || guards::is_tensor(object) || guards::is_constant_like(object)) {
    return PyTuple_CheckExact(object) && std::any_of(&PyTuple_GET_ITEM(object, 0), &PyTuple_GET_ITEM(object, 0) + PyTuple_GET_SIZE(object), is_hashed_by_program);
  }
  PyObject* hash = _PyType_Lookup(Py_TYPE(object), hash_name);
  return hash && PyFunction_Check(hash);
}

void Recorder::note_compared(PyObject* object, int depth) {
  if (object == nullptr || guards::is_constant_like(object)) return;
  if (depth > kDeepest || PyIter_Check(object)) {
    compares_unseen_ = true;
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) note_compared(PySequence_Fast_ITEMS(object)[i], depth + 1);
  } else if (PyDict_Check(object)) {
    note_keys(object, depth);
    note_compared(Ref::steal(PyDict_Values(object)).get(), depth + 1);
  } else if (PyAnySet_Check(object) || PyDictViewSet_Check(object) || PyDictValues_Check(object) || is_deque(object)) {
    const Ref items = Ref::steal(PySequence_List(object));
    if (!items) PyErr_Clear();
    note_compared(items.get(), depth + 1);
  } else {
    note_object(object);
    if (PyMethod_Check(object)) note_compared(PyMethod_GET_SELF(object), depth + 1);
    if (PyWeakref_CheckRefExact(object)) note_compared(PyWeakref_GET_OBJECT(object), depth + 1);
    PyTypeObject* type = Py_TYPE(object);
    const bool gives_items = (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && (type->tp_iter || (type->tp_as_sequence && type->tp_as_sequence->sq_item)) && !guards::is_tensor(object);
    if (gives_items) compares_unseen_ = true;
  }
}

/// C code takes an object for equal to itself, whatever its class says.
void Recorder::note_object(PyObject* object) {
  const Object* known = find(object);
  const bool made_here = known ? known->known == Known::kFresh : guards::is_plain_tensor(object) && operators_.find(guards::tensor_of(object)) != graph::kNoValue;
  if (!made_here) compared_.try_emplace(object, Ref::borrow(object));
}

void Recorder::note_keys(PyObject* container, int depth) {
  if (PyDict_Check(container)) note_compared(Ref::steal(PyDict_Keys(container)).get(), depth + 1);
  else note_compared(container, depth);
}

void Recorder::note_compared_by(vm::Activation& activation, const Instruction& in) {
  auto operand = [&](int depth) { return activation.peek(depth); };
  switch (in.opcode) {
    case Opcode::kBuildSet:
      for (int i = 1; i <= in.argument; i++) note_compared(operand(i));
      break;
    case Opcode::kBuildMap:
      for (int i = 1; i <= in.argument; i++) note_compared(operand(2 * i));
      break;
    case Opcode::kSetAdd:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
    case Opcode::kDictMerge:
      note_keys(operand(1));
      note_keys(operand(in.argument + 1));
      break;
    case Opcode::kMapAdd:
      note_compared(operand(2));
      note_keys(operand(in.argument + 2));
      break;
    case Opcode::kContainsOp:
      if (PyUnicode_Check(operand(1))) break;
      note_keys(operand(1));
      note_compared(operand(2));
      break;
    case Opcode::kCompareOp:
      if (guards::is_tensor(operand(1)) || guards::is_tensor(operand(2))) break;
      note_compared(operand(1));
      note_compared(operand(2));
      break;
    case Opcode::kBinaryOp:
      for (PyObject* side : {operand(1), operand(2)}) {
        if (PyAnySet_Check(side) || PyDict_Check(side) || PyDictViewSet_Check(side)) note_keys(side);
        note_set_written(side, nullptr);
      }
      break;
    case Opcode::kStoreSubscr:
    case Opcode::kBinarySubscr:
    case Opcode::kDeleteSubscr:
      if (!PyDict_Check(operand(2)) || guards::is_constant_like(operand(1))) break;
      note_compared(operand(1));
      note_keys(operand(2));
      break;
    default: break;
  }
}

void Recorder::note_compared_by(const std::string& name, PyObject* self, const CallSite& site) {
  if (name == "iter" && site.arguments.size() == 2) compares_unseen_ = true;  // with what ends it
  if (compares_nothing(name)) return;
  const bool keyed = (site.keyword_names != nullptr && (name == "sorted" || name == "min" || name == "max" || name == "list.sort")) || name == "groupby";
  if (name == "is_" || name == "is_not") {
    for (PyObject* argument : site.arguments) note_object(argument);
  }
  const bool unseen = calls_another(name) && (site.arguments.empty() || !PyFunction_Check(site.arguments[0]));
  if (keyed || unseen) compares_unseen_ = true;
  if (calls_another(name)) return;
  const bool keys = hashes_keys(name);
  if (self) keys ? note_keys(self) : note_compared(self);
  for (Py_ssize_t i = 0; i < (keys ? site.positional : static_cast<Py_ssize_t>(site.arguments.size())); i++) {
    PyObject* argument = site.arguments[static_cast<std::size_t>(i)];
    keys ? note_keys(argument) : note_compared(argument);
  }
}

/// A set that an instruction has just made.
void Recorder::note_made_set(const Instruction& in, PyObject* result) {
  if (result == nullptr || !PyAnySet_CheckExact(result) || !is_fresh(result)) return;
  auto is_maker = [](const Ref& operand) { return operand.get() == reinterpret_cast<PyObject*>(&PySet_Type) || operand.get() == reinterpret_cast<PyObject*>(&PyFrozenSet_Type); };
  const std::vector<Ref>& operands = pending_.operands;
  Ref items;
  if (PySet_GET_SIZE(result) < 2) items = Ref::steal(PySequence_List(result));
  else if (!operands.empty() && std::any_of(operands.begin(), operands.end(), is_maker) && (PyList_CheckExact(operands.back().get()) || PyTuple_CheckExact(operands.back().get()))) items = operands.back();
  std::vector<Ref> added;
  if (in.opcode == Opcode::kBuildSet) added = operands;
  for (Py_ssize_t i = 0; items && in.opcode != Opcode::kBuildSet && i < Py_SIZE(items.get()); i++) added.push_back(Ref::borrow(PySequence_Fast_ITEMS(items.get())[i]));
  if (items || in.opcode == Opcode::kBuildSet) set_items_[result] = std::move(added);
  else set_items_.erase(result);
}

/// `added`: the one item that the set is given; null where it is written in another way.
void Recorder::note_set_written(PyObject* set, PyObject* added) {
  auto known = set_items_.find(set);
  if (known == set_items_.end()) return;
  if (added) known->second.push_back(Ref::borrow(added));
  else set_items_.erase(known);
}

namespace {

/// Whether a set that these are added to, one by one, has its items in the order of the list.
bool gives_order(const std::vector<Ref>& items, PyObject* order) {
  const Ref made = Ref::steal(PySet_New(nullptr));
  for (const Ref& item : items) PySet_Add(made.get(), item.get());
  const Ref list = Ref::steal(PySequence_List(made.get()));
  PyErr_Clear();
  return list && PyList_GET_SIZE(list.get()) == PyList_GET_SIZE(order) && std::equal(&PyList_GET_ITEM(order, 0), &PyList_GET_ITEM(order, 0) + PyList_GET_SIZE(order), &PyList_GET_ITEM(list.get(), 0));
}

}  // namespace

std::optional<std::vector<Ref>> Recorder::items_to_add(PyObject* set) {
  const Ref now = Ref::steal(PySequence_List(set));
  if (!now) return PyErr_Clear(), std::nullopt;
  if (std::any_of(&PyList_GET_ITEM(now.get(), 0), &PyList_GET_ITEM(now.get(), 0) + PyList_GET_SIZE(now.get()), is_hashed_by_program)) return std::nullopt;
  if (auto known = set_items_.find(set); known != set_items_.end() && gives_order(known->second, now.get())) return known->second;
  // Those that hash by their address may lie elsewhere the next time.
  if (!has_fixed_order(set)) return std::nullopt;
  std::vector<Ref> items;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(now.get()); i++) items.push_back(Ref::borrow(PyList_GET_ITEM(now.get(), i)));
  if (gives_order(items, now.get())) return items;
  std::reverse(items.begin(), items.end());
  return gives_order(items, now.get()) ? std::optional(std::move(items)) : std::nullopt;
}

void Recorder::require_distinct_objects() {
  std::map<PyTypeObject*, std::vector<SourceId>> kinds;
  auto add = [&](PyObject* object) {
    if (const SourceId source = source_of(object); source != kNoSource) kinds[Py_TYPE(object)].push_back(source);
  };
  if (compares_unseen_) {
    for (const auto& [object, known] : objects_) {
      if (known.known == Known::kExternal && known.type == Py_TYPE(object) && !PyType_Check(object)) add(object);
    }
  } else {
    for (const auto& [object, kept] : compared_) add(object);
  }
  for (auto& [type, sources] : kinds) {
    if (sources.size() == 2) guards_.check_same(sources[0], sources[1], false);
    else if (sources.size() > 2) guards_.check_distinct(std::move(sources), {});
  }
}

}  // namespace dynrun::trace
