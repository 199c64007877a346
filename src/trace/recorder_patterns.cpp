// The tests of a match statement.

#include "guards/torch_python.h"
#include "trace/recorder.h"

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceId;

/// The tests of a match statement on a subject's kind.
Flow Recorder::match(vm::Activation& activation, const Instruction& in) {
  PyObject* subject = activation.peek(in.opcode == Opcode::kMatchKeys ? 2 : 1);
  if (!resolve(subject)) return cut(BreakId::k_unknown_object, "match");
  if (in.opcode == Opcode::kMatchSequence || in.opcode == Opcode::kMatchMapping) return prepare(activation, in, 0, Then::kLearnTop);
  bool plain = PyTuple_Check(subject) || PyList_CheckExact(subject) || PyDict_CheckExact(subject);
  if (!plain || !resolve_deep(subject)) return cut(BreakId::k_opaque_operation, "match");
  return prepare(activation, in, 0, Then::kLearnTop);
}

/// A class pattern: whether the subject is one, and attributes of it.
Flow Recorder::match_class(vm::Activation& activation, const Instruction& in) {
  static PyObject* const check_name = PyUnicode_InternFromString("__instancecheck__");
  static PyObject* const class_name = PyUnicode_InternFromString("__class__");
  static PyObject* const match_name = PyUnicode_InternFromString("__match_args__");
  PyObject *subject = activation.peek(3), *wanted = activation.peek(2), *names = activation.peek(1);
  if (!resolve(subject) || !resolve(wanted) || !PyType_Check(wanted)) return cut(BreakId::k_unknown_object, "match");
  auto *type = reinterpret_cast<PyTypeObject*>(wanted), *meta = Py_TYPE(wanted), *own = Py_TYPE(subject);
  guards_.note_type_lookup(meta, check_name, _PyType_Lookup(meta, check_name));
  guards_.note_type_lookup(own, class_name, _PyType_Lookup(own, class_name));
  bool plain = _PyType_Lookup(meta, check_name) == _PyType_Lookup(&PyType_Type, check_name) && _PyType_Lookup(own, class_name) == _PyType_Lookup(&PyBaseObject_Type, class_name);
  if (!plain || is_unsettled(subject)) return cut(BreakId::k_opaque_operation, "match");
  if (!PyType_IsSubtype(own, type)) return prepare(activation, in, 3, Then::kLearnTop);
  is_constant(subject);
  std::vector<PyObject*> attributes;
  PyObject* getter = nullptr;
  SourceId source = kNoSource;
  if (in.argument > 0 && !(type->tp_flags & _Py_TPFLAGS_MATCH_SELF)) {
    PyObject* arguments = _PyType_Lookup(type, match_name);
    bool found = arguments && PyTuple_CheckExact(arguments) && PyTuple_GET_SIZE(arguments) >= in.argument &&
                 look_up(wanted, match_name, &getter, &source) == Attribute::kValue && resolve_deep(arguments);
    for (std::int32_t i = 0; found && i < in.argument; i++) attributes.push_back(PyTuple_GET_ITEM(arguments, i));
    if (!found) return cut(BreakId::k_opaque_operation, "match");
  } else if (in.argument > 1 || (in.argument == 1 && _PyType_Lookup(type, match_name))) {
    return cut(BreakId::k_opaque_operation, "match");
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) attributes.push_back(PyTuple_GET_ITEM(names, i));
  for (PyObject* name : attributes) {
    if (look_up(subject, name, &getter, &source) == Attribute::kUnknown) return cut(BreakId::k_opaque_operation, "match");
  }
  return prepare(activation, in, 3, Then::kLearnTop);
}

}  // namespace dynrun::trace
