// Which objects are one and the same: sets, dicts and comparisons of containers ask it of their items, in C and without Python
// code. Objects that two names led to are guarded as the same where they are met; here those that were not the same are.

#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <map>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceId;
using python::Ref;

namespace {

constexpr int kDeepest = 4;

bool is_dict(PyObject* object) { return PyDict_Check(object) || PyDictViewSet_Check(object); }

/// Functions of C that pass their arguments on, or look at their types and sizes, and compare none of them.
bool compares_nothing(const std::string& name) {
  static const std::unordered_set<std::string_view> names = {
      "list", "tuple", "iter", "zip", "enumerate", "reversed", "len", "type", "callable", "map", "filter", "partial", "chain", "chain.from_iterable",
      "repeat", "islice", "zip_longest", "product", "starmap", "accumulate", "tee", "cycle", "pairwise", "batched", "compress", "super", "any", "all",
      "dict.keys", "dict.values", "dict.items", "dict.copy", "list.copy", "list.extend", "list.insert", "list.pop", "list.reverse", "list.clear",
      "list.__init__", "list.__len__", "list.__iter__", "list.__getitem__", "tuple.__len__", "tuple.__iter__", "tuple.__getitem__", "dict.__len__",
      "dict.__iter__", "deque", "deque.append", "deque.appendleft", "deque.extend", "deque.pop", "deque.popleft", "attrgetter", "itemgetter",
      "methodcaller", "reduce", "MethodType", "method"};
  return names.count(name) != 0;
}

}  // namespace

bool is_hashed_by_identity(PyObject* object) {
  if (guards::is_plain_tensor(object)) return true;
  PyTypeObject* type = Py_TYPE(object);
  return type->tp_hash == PyBaseObject_Type.tp_hash && type->tp_richcompare == PyBaseObject_Type.tp_richcompare;
}

void Recorder::note_compared(PyObject* object, int depth) {
  if (object == nullptr || depth > kDeepest || guards::is_constant_like(object)) return;
  const bool sequence = PyList_CheckExact(object) || PyTuple_CheckExact(object);
  if (sequence) {
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) note_compared(PySequence_Fast_ITEMS(object)[i], depth + 1);
  } else if (PyAnySet_Check(object) || is_dict(object)) {
    const Ref items = Ref::steal(PyAnySet_Check(object) || !PyDict_Check(object) ? PySequence_List(object) : PyDict_Keys(object));
    if (items) note_compared(items.get(), depth + 1);
    else PyErr_Clear();
  } else if (is_hashed_by_identity(object)) {
    const Object* known = find(object);
    if (known == nullptr || known->known == Known::kExternal) compared_.try_emplace(object, Ref::borrow(object));
  }
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
      note_compared(operand(1));
      note_compared(operand(in.argument + 1));
      break;
    case Opcode::kMapAdd:
      note_compared(operand(2));
      note_compared(operand(in.argument + 2));
      break;
    case Opcode::kContainsOp:
      if (PyUnicode_Check(operand(1))) break;
      note_compared(operand(1));
      note_compared(operand(2));
      break;
    case Opcode::kCompareOp:
    case Opcode::kBinaryOp:
      for (PyObject* side : {operand(1), operand(2)}) {
        if (PyDict_Check(side)) note_compared(Ref::steal(PyDict_Values(side)).get());
        const bool sequence = PyList_CheckExact(side) || PyTuple_CheckExact(side);
        if (PyAnySet_Check(side) || is_dict(side) || (sequence && in.opcode == Opcode::kCompareOp)) note_compared(side);
      }
      break;
    case Opcode::kStoreSubscr:
    case Opcode::kBinarySubscr:
    case Opcode::kDeleteSubscr:
      if (!PyDict_Check(operand(2)) || guards::is_constant_like(operand(1))) break;
      note_compared(operand(1));
      note_compared(operand(2));
      break;
    default: break;
  }
}

void Recorder::note_compared_by(const std::string& name, PyObject* self, const CallSite& site) {
  if (compares_nothing(name)) return;
  note_compared(self);
  for (PyObject* argument : site.arguments) note_compared(argument);
}

void Recorder::require_distinct_objects() {
  std::map<PyTypeObject*, std::vector<SourceId>> kinds;
  for (const auto& [object, kept] : compared_) {
    if (const SourceId source = source_of(object); source != kNoSource) kinds[Py_TYPE(object)].push_back(source);
  }
  for (auto& [type, sources] : kinds) {
    if (sources.size() == 2) guards_.check_same(sources[0], sources[1], false);
    else if (sources.size() > 2) guards_.check_distinct(std::move(sources), {});
  }
}

}  // namespace dynrun::trace
