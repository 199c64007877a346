// Operators, containers, iteration and branches.

#include "guards/numpy_scalar.h"
#include "guards/torch_python.h"
#include "python/compat.h"
#include "python/numbers.h"
#include "python/text.h"
#include "trace/operator_methods.h"
#include "trace/recorder.h"

#include <torch/csrc/Device.h>

#include <opcode.h>

#include <algorithm>
#include <string_view>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using guards::kNoSource;
using guards::SourceId;
using guards::SourceKind;
using python::Ref;

PyObject* Recorder::python_method(PyObject* object, const char* name, SourceId known) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && !guards::is_tensor(object)) return nullptr;
  if (known != kNoSource && !learn_external(object, known)) return nullptr;
  Ref text = Ref::steal(PyUnicode_InternFromString(name));
  PyObject* found = _PyType_Lookup(type, text.get());
  guards_.note_type_lookup(type, text.get(), found);
  if (found == nullptr || !PyFunction_Check(found)) return nullptr;
  SourceId source = kNoSource;
  if (!guards::is_constant_like(object)) {
    source = type_source(object);
  } else {
    source = guards_.constant(reinterpret_cast<PyObject*>(type));  // a member of an enumeration, which keeps its class
    learn_external(reinterpret_cast<PyObject*>(type), source);
  }
  if (source == kNoSource && guards::is_plain_tensor(object)) {
    source = guards_.constant(reinterpret_cast<PyObject*>(type));
    learn_external(reinterpret_cast<PyObject*>(type), source);
  }
  if (source == kNoSource) return nullptr;
  return learn_external(found, guards_.read(SourceKind::kTypeAttribute, source, 0, text.get())) ? found : nullptr;
}

Recorder::Truth Recorder::truth_of(PyObject* object, PyObject** method) {
  if (is_constant(object)) {
    return truth_is_fixed(object) ? Truth::kKnown : Truth::kUnknown;
  }
  if (guards::is_tensor(object)) {
    bool constant = guards::is_plain_tensor(object) && operators_.is_constant(operators_.find(guards::tensor_of(object)));
    return constant || require_content(object) ? Truth::kKnown : Truth::kTensor;
  }
  if (PyFunction_Check(object) || PyMethod_Check(object) || PyType_Check(object) || PyModule_Check(object) || PyCFunction_Check(object)) {
    return PyType_Check(object) && Py_TYPE(object) != &PyType_Type ? Truth::kUnknown : Truth::kKnown;
  }
  PyTypeObject* type = Py_TYPE(object);
  bool container = PyList_CheckExact(object) || PyTuple_CheckExact(object) || PyDict_CheckExact(object) || PyODict_CheckExact(object) || PyAnySet_CheckExact(object);
  if (container) {
    SourceId source = source_of(object);
    if (source == kNoSource) return Truth::kKnown;
    if (is_dirty(object) || written_keys_.count(object)) return Truth::kUnknown;
    Py_ssize_t length = PyObject_Size(object);
    // Only whether it is empty matters; a change of a non-empty length would miss for nothing, so long ones are left alone.
    guards_.check_length(source, length);
    return Truth::kKnown;
  }
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
    return type->tp_as_number && type->tp_as_number->nb_bool ? Truth::kUnknown
           : type->tp_as_sequence && type->tp_as_sequence->sq_length ? (is_fresh(object) ? Truth::kKnown : Truth::kUnknown)
           : type->tp_as_mapping && type->tp_as_mapping->mp_length   ? (is_fresh(object) ? Truth::kKnown : Truth::kUnknown)
                                                                     : Truth::kKnown;
  }
  if (PyDict_Check(object) || PyTuple_Check(object) || PyList_Check(object)) {
    *method = python_method(object, "__bool__");
    if (!*method) *method = python_method(object, "__len__");
    if (*method) return Truth::kCall;
    if (source_of(object) == kNoSource) return Truth::kKnown;
    if (written_keys_.count(object)) return Truth::kUnknown;
    guards_.check_length(source_of(object), PyObject_Size(object));
    return Truth::kKnown;
  }
  if (is_fresh(object) && is_plain_temporary(object)) return Truth::kKnown;
  *method = python_method(object, "__bool__");
  if (!*method) *method = python_method(object, "__len__");
  if (*method) return Truth::kCall;
  bool c_truth = (type->tp_as_number && type->tp_as_number->nb_bool) || (type->tp_as_sequence && type->tp_as_sequence->sq_length) ||
                 (type->tp_as_mapping && type->tp_as_mapping->mp_length);
  return c_truth ? Truth::kUnknown : Truth::kKnown;
}

Flow Recorder::branch(vm::Activation& activation, const Instruction& in) {
  PyObject* object = activation.peek(1);
  if (!resolve(object)) return cut(BreakId::k_unknown_object, Py_TYPE(object)->tp_name);
  if (is_host(object)) {
    host_.require_truth(host_of(object), PyObject_IsTrue(object) == 1);
    return Flow::kRun;
  }
  PyObject* method = nullptr;
  switch (truth_of(object, &method)) {
    case Truth::kKnown: {
      bool asks = guards::is_tensor(object) || (guards::is_constant_like(object) && (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE));
      return asks ? prepare(activation, in, 1, Then::kNothing) : Flow::kRun;
    }
    case Truth::kTensor:
      if (const auto truth = assume_truth(activation, in, object, activation.pc)) {
        Py_SETREF(activation.stack_pointer[-1], Py_NewRef(*truth ? Py_True : Py_False));
        return Flow::kRun;
      }
      return cut(BreakId::k_data_dependent_bool);
    case Truth::kUnknown: return cut(BreakId::k_opaque_operation, std::string("bool() of a ") + Py_TYPE(object)->tp_name);
    case Truth::kCall: break;
  }
  // Run the method inline; its truth takes the operand's place, and the jump runs again.
  Ref held = Ref::steal(activation.pop());
  PyObject* self = Py_NewRef(held.get());
  if (!vm::Machine::is_inlinable(method) || !learn_function_defaults(method)) {
    Py_DECREF(self);
    activation.push(held.release());
    return cut(BreakId::k_opaque_operation, "bool()");
  }
  vm::Activation* pushed = vm::current_machine()->push_call(method, &self, 1, nullptr, vm::Continuation::kPushTruth);
  return pushed ? Flow::kResume : Flow::kRaise;
}

Flow Recorder::branch_none(vm::Activation& activation, const Instruction&) {
  // Whether it is None follows from its guarded type.
  return resolve(activation.peek(1)) ? Flow::kRun : cut(BreakId::k_unknown_object, Py_TYPE(activation.peek(1))->tp_name);
}

Flow Recorder::unary_not(vm::Activation& activation, const Instruction& in) {
  PyObject* object = activation.peek(1);
  if (!resolve(object)) return cut(BreakId::k_unknown_object, Py_TYPE(object)->tp_name);
  PyObject* method = nullptr;
  switch (truth_of(object, &method)) {
    case Truth::kKnown: return prepare(activation, in, 1, Then::kNothing);
    case Truth::kTensor: return cut(BreakId::k_data_dependent_bool);
    case Truth::kCall: return push(activation, in, method, {object}, 1, nullptr, 1, vm::Continuation::kPushNotTruth);
    case Truth::kUnknown: break;
  }
  return cut(BreakId::k_opaque_operation, std::string("not of a ") + Py_TYPE(object)->tp_name);
}

/// Whether the recorder can follow an operator on this operand: constants, containers of known things, plain tensors.
bool Recorder::operand_ok(PyObject* operand, bool* tensor) {
  if (guards::is_plain_tensor(operand)) {
    *tensor = true;
    return resolve(operand);
  }
  if (guards::is_tensor(operand)) return false;
  if (is_constant(operand)) return !(Py_TYPE(operand)->tp_flags & Py_TPFLAGS_HEAPTYPE) || PyLong_Check(operand) || PyUnicode_Check(operand);
  bool container = PyList_CheckExact(operand) || PyTuple_CheckExact(operand) || PyDict_CheckExact(operand) || PyAnySet_CheckExact(operand) ||
                   PySlice_Check(operand) || PyType_Check(operand) ||
                   (is_fresh(operand) && std::string_view(Py_TYPE(operand)->tp_name) == "types.UnionType");
  return container && resolve_deep(operand);
}

Flow Recorder::unary(vm::Activation& activation, const Instruction& in) {
  if (in.opcode == Opcode::kUnaryInvert) {
    if (auto done = fold_flags(activation, in)) return *done;
  }
  if (is_host(activation.peek(1)) && PyNumber_Check(activation.peek(1)))
    return compute_host(activation, in, in.opcode == Opcode::kUnaryNegative ? HostKind::kNegative : HostKind::kInvert, 0, {activation.peek(1)}, nullptr, 1);
  if (auto done = fold_numpy_unary(activation, in)) return *done;
  bool tensor = false;
  if (operand_ok(activation.peek(1), &tensor)) return prepare(activation, in, 1, Then::kLearnTop);
  PyObject* method = resolve(activation.peek(1))
                         ? python_method(activation.peek(1), in.opcode == Opcode::kUnaryNegative ? "__neg__" : "__invert__")
                         : nullptr;
  if (method) return push(activation, in, method, {activation.peek(1)}, 1, nullptr, 1, vm::Continuation::kPushResult);
  return cut(BreakId::k_opaque_operation, std::string("an operator on a ") + Py_TYPE(activation.peek(1))->tp_name);
}

namespace {

const char* compare_method(int op) {
  static const char* const names[] = {"__lt__", "__le__", "__eq__", "__ne__", "__gt__", "__ge__"};
  return names[op];
}

}  // namespace

namespace {

bool is_plain_constant(PyObject* object) { return guards::is_constant_like(object) && !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE); }

/// Sets and views of a dict's keys whose items C code hashes.
bool is_set_like(PyObject* object) {
  bool set = PyAnySet_CheckExact(object) || PyDictKeys_Check(object);
  if (!set) return false;
  Ref items = Ref::steal(PySequence_List(object));
  for (Py_ssize_t i = 0; items && i < PyList_GET_SIZE(items.get()); i++) {
    if (!is_plain_constant(PyList_GET_ITEM(items.get(), i))) return false;
  }
  PyErr_Clear();
  return items.get() != nullptr;
}

}  // namespace

Flow Recorder::binary(vm::Activation& activation, const Instruction& in) {
  PyObject *left = activation.peek(2), *right = activation.peek(1);
  bool in_place = in.argument >= NB_INPLACE_ADD;
  bool tensor = false;
  if ((is_host(left) || is_host(right)) && is_operand(left) && is_operand(right))
    return compute_host(activation, in, HostKind::kBinary, in_place ? in.argument - NB_INPLACE_ADD : in.argument, {left, right}, nullptr, 2);
  auto given = [this](PyObject* number) { return is_host(number) || is_data_number(number); };
  bool with_host = guards::is_plain_tensor(left) ? given(right) : given(left) && guards::is_plain_tensor(right);
  if (with_host && resolve(guards::is_plain_tensor(left) ? left : right)) {
    Flow flow = prepare(activation, in, 2, Then::kLearnTop);
    // The tensor comes first whichever side it stands on.
    offer_hosts({guards::is_plain_tensor(left) ? right : left}, 1, nullptr);
    return flow;
  }
  const bool sequences = (PyTuple_Check(left) && PyTuple_Check(right)) || (PyList_CheckExact(left) && PyList_CheckExact(right));
  if (in.argument == NB_ADD && records_sizes() && sequences && (holds_hosts(left) || holds_hosts(right)) &&
      resolve_deep(left, 0, true) && resolve_deep(right, 0, true))
    return prepare(activation, in, 2, Then::kLearnTop);
  if (auto done = fold_numpy(activation, in)) return *done;
  if (operand_ok(left, &tensor) && operand_ok(right, &tensor)) {
    if (in_place && (PyList_CheckExact(left) || PyDict_CheckExact(left) || PyAnySet_CheckExact(left))) {
      if (source_of(left) != kNoSource && !(in.argument == NB_INPLACE_ADD && append_all(left, right))) return cut(BreakId::k_opaque_operation, "an outside container changed in place");
      mutations_++;
    }
    return prepare(activation, in, 2, Then::kLearnTop);
  }
  if (auto done = fold_flags(activation, in)) return *done;
  if (in_place && !tensor && resolve(left) && resolve(right)) {
    if (PyObject* method = python_method(left, kInPlaceMethods[in.argument - NB_INPLACE_ADD]))
      return push(activation, in, method, {left, right}, 2, nullptr, 2, vm::Continuation::kPushResult);
  }
  // A method of the left operand's class, when the right one's class cannot come first.
  if (!in_place && !tensor && resolve(left) && resolve(right) && is_plain_constant(left)) {
    // A number or text on the left: the right operand's class has the method.
    Ref name = Ref::steal(PyUnicode_FromFormat("__r%s", kBinaryMethods[in.argument] + 2));
    if (python_method(right, python::text_of(name.get()))) return prepare(activation, in, 2, Then::kLearnTop);
    // "%s" % object: Python code of its class makes the text.
    bool shown = in.argument == NB_REMAINDER && PyUnicode_CheckExact(left) && !PyTuple_Check(right) && !PyDict_Check(right) && !PyList_Check(right);
    if (shown && (python_method(right, "__str__") || python_method(right, "__repr__"))) return prepare(activation, in, 2, Then::kLearnTop);
  }
  if (is_set_like(left) && is_set_like(right) && !in_place && resolve_deep(left) && resolve_deep(right)) return prepare(activation, in, 2, Then::kLearnTop);
  bool same_class = Py_TYPE(left) == Py_TYPE(right);
  if (!in_place && !tensor && resolve(left) && resolve(right) && (same_class || !PyType_IsSubtype(Py_TYPE(right), Py_TYPE(left)))) {
    PyObject* method = python_method(left, kBinaryMethods[in.argument]);
    if (method) return prepare(activation, in, 2, Then::kLearnTop);  // through C: NotImplemented and reflection are CPython's
  }
  return cut(BreakId::k_opaque_operation,
             std::string("an operator on ") + Py_TYPE(left)->tp_name + " and " + Py_TYPE(right)->tp_name);
}

/// Whether what an object is compared with, of another type, decides without a look at its value. A Decimal or an instance of a
/// subclass of int may be equal to a number.
bool Recorder::differs_by_type(PyObject* object) {
  if (is_constant(object) || Py_TYPE(object)->tp_richcompare == PyBaseObject_Type.tp_richcompare || PyFunction_Check(object) || PyType_Check(object)) return true;
  return PyList_Check(object) || PyTuple_Check(object) || PyDict_Check(object) || PyAnySet_Check(object) || is_plain_temporary(object) || resolve_deep(object);
}

Flow Recorder::compare(vm::Activation& activation, const Instruction& in) {
  PyObject *left = activation.peek(2), *right = activation.peek(1);
  bool tensor = false;
  if ((is_host(left) || is_host(right)) && is_operand(left) && is_operand(right)) return host_comparison(activation, in.argument >> 4, left, right);
  if ((is_host(right) || is_data_number(right)) && guards::is_plain_tensor(left) && resolve(left)) {
    Flow flow = prepare(activation, in, 2, Then::kLearnTop);
    offer_hosts({right}, 1, nullptr);
    return flow;
  }
  const int op = in.argument >> 4;
  if ((op == Py_EQ || op == Py_NE) && (holds_hosts(left) || holds_hosts(right)) && compare_sizes(left, right)) return Flow::kRun;
  if (operand_ok(left, &tensor) && operand_ok(right, &tensor)) return prepare(activation, in, 2, Then::kLearnTop);
  if (!tensor && resolve(left) && resolve(right)) {
    if (python_method(left, compare_method(op))) return prepare(activation, in, 2, Then::kLearnTop);
    auto plain_tuple = [](PyObject* object) { return PyTuple_Check(object) && Py_TYPE(object)->tp_richcompare == PyTuple_Type.tp_richcompare; };
    if (plain_tuple(left) && plain_tuple(right) && !python_method(right, "__eq__") && resolve_deep(left) && resolve_deep(right))
      return prepare(activation, in, 2, Then::kLearnTop);  // named tuples
    // object.__ne__ asks __eq__.
    if (op == Py_NE && python_method(left, "__eq__")) return prepare(activation, in, 2, Then::kLearnTop);
    if (is_set_like(left) && is_set_like(right) && resolve_deep(left) && resolve_deep(right)) return prepare(activation, in, 2, Then::kLearnTop);
    bool identity = (op == Py_EQ || op == Py_NE) && Py_TYPE(left)->tp_richcompare == PyBaseObject_Type.tp_richcompare &&
                    Py_TYPE(right)->tp_richcompare == PyBaseObject_Type.tp_richcompare;
    if (identity) return is_op(activation, in);
    if ((op == Py_EQ || op == Py_NE) && (is_constant(left) || is_constant(right) || PyFunction_Check(left)) &&
        Py_TYPE(left) != Py_TYPE(right) && differs_by_type(left) && differs_by_type(right))
      return prepare(activation, in, 2, Then::kLearnTop);
  }
  return cut(BreakId::k_opaque_operation, std::string("comparing ") + Py_TYPE(left)->tp_name + " and " + Py_TYPE(right)->tp_name);
}

Flow Recorder::is_op(vm::Activation& activation, const Instruction&) {
  PyObject *left = activation.peek(2), *right = activation.peek(1);
  if (!resolve(left) || !resolve(right)) return cut(BreakId::k_unknown_object, "is");
  SourceId a = source_of(left), b = source_of(right);
  if (a != kNoSource && b != kNoSource && a != b) guards_.check_same(a, b, left == right);
  // Numbers and strings from outside are guarded by value only: their identity may differ next time.
  auto loose = [](PyObject* object) {
    return PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) || PyBytes_CheckExact(object) || PyComplex_CheckExact(object) || THPDevice_Check(object) || guards::is_numpy_scalar(object);
  };
  auto small = [this](PyObject* object) { return !is_host(object) && !is_late(object) && python::is_small_int(object); };
  if (small(left) && small(right) && (left == right) == (PyLong_AsLong(left) == PyLong_AsLong(right))) return Flow::kRun;
  if (loose(left) && loose(right)) return cut(BreakId::k_opaque_operation, "identity of numbers or strings");
  return Flow::kRun;
}

/// Whether every item hashes and compares without Python code: text, numbers, classes.
bool set_is_plain(PyObject* set) {
  Ref items = Ref::steal(PySequence_List(set));
  if (!items || PyList_GET_SIZE(items.get()) > 1000) return false;
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items.get()); i++) {
    PyObject* one = PyList_GET_ITEM(items.get(), i);
    bool plain_class = PyType_Check(one) && Py_TYPE(one)->tp_hash == PyType_Type.tp_hash;
    if (!plain_class && !PyUnicode_CheckExact(one) && !PyLong_CheckExact(one) && one != Py_None && !PyBool_Check(one)) return false;
  }
  return true;
}

Flow Recorder::contains(vm::Activation& activation, const Instruction& in) {
  PyObject *container = activation.peek(1), *item = activation.peek(2);
  if (!resolve(container) || !resolve(item)) return cut(BreakId::k_unknown_object, "in");
  if ((PyDict_CheckExact(container) || PyODict_CheckExact(container) || is_subclass(container, &PyDict_Type, "__contains__")) && !is_dirty(container) &&
      (is_constant(item) || (source_of(container) == kNoSource ? stays_plain_class(item) : is_class_key(item)))) {
    SourceId source = source_of(container);
    if (source == kNoSource || was_written(container, item)) return Flow::kRun;
    PyObject* value = PyDict_GetItemWithError(container, item);
    if (value == nullptr) {
      guards_.check_absent(source, item);
      return Flow::kRun;
    }
    // Present: its value is looked at only if it is read.
    SourceId path = guards_.read(SourceKind::kDictItem, source, 0, item);
    if (guards::is_constant_like(value)) guards_.check_type(path, Py_TYPE(value));
    else if (!learn_external(value, path)) return cut(BreakId::k_opaque_operation, "in");
    return Flow::kRun;
  }
  if (PyDict_Check(container) && PyType_Check(item) && source_of(container) != kNoSource) return cut(BreakId::k_opaque_operation, "in, of a class that may go");
  bool tensor = false;
  if (operand_ok(item, &tensor) && !tensor && operand_ok(container, &tensor) && !tensor) return prepare(activation, in, 2, Then::kNothing);
  if (PyAnySet_CheckExact(container) && source_of(container) != kNoSource && !is_dirty(container) && (is_constant(item) || PyType_Check(item)) &&
      set_is_plain(container)) {
    guards_.check_set(source_of(container), container);
    return prepare(activation, in, 2, Then::kNothing);
  }
  if (Py_TYPE(container) && is_fresh(container) && is_constant(item) && !any_unsettled() && !(Py_TYPE(container)->tp_flags & Py_TPFLAGS_HEAPTYPE))
    return prepare(activation, in, 2, Then::kNothing);
  if (PyAnySet_CheckExact(container) && is_fresh(container) && is_hashed_by_identity(item)) {
    Ref members = Ref::steal(PySequence_List(container));
    auto by_identity = [](PyObject* member) { return is_hashed_by_identity(member) || guards::is_constant_like(member); };
    PyObject** const items = PySequence_Fast_ITEMS(members.get());
    if (!std::all_of(items, items + PyList_GET_SIZE(members.get()), by_identity)) return cut(BreakId::k_opaque_operation, "in a set of objects");
    return prepare(activation, in, 2, Then::kNothing);
  }
  if (PyDictItems_Check(container) && is_fresh(container) && PyTuple_CheckExact(item) && PyTuple_GET_SIZE(item) == 2 && resolve_deep(item) && !any_unsettled()) {
    PyObject* dict = reinterpret_cast<PyObject*>(reinterpret_cast<_PyDictViewObject*>(container)->dv_dict);
    PyObject *key = PyTuple_GET_ITEM(item, 0), *wanted = PyTuple_GET_ITEM(item, 1);
    PyObject* value = is_plain_constant(key) && resolve_deep(dict) ? PyDict_GetItemWithError(dict, key) : nullptr;
    PyErr_Clear();
    if (is_plain_constant(key) && resolve_deep(dict) && (value == nullptr || (is_plain_constant(value) && is_plain_constant(wanted))))
      return prepare(activation, in, 2, Then::kNothing);
  }
  if (PyObject* method = python_method(container, "__contains__"))
    return push(activation, in, method, {container, item}, 2, nullptr, 2, in.argument ? vm::Continuation::kPushNotTruth : vm::Continuation::kPushTruth);
  return cut(BreakId::k_opaque_operation, std::string("in a ") + Py_TYPE(container)->tp_name);
}

/// An index into a tensor that the dispatcher sees as a whole: lists of numbers go behind its back.
bool Recorder::index_ok(PyObject* index) {
  if (PyTuple_CheckExact(index)) {
    if (!resolve(index)) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(index); i++) {
      if (PyTuple_Check(PyTuple_GET_ITEM(index, i)) || !index_ok(PyTuple_GET_ITEM(index, i))) return false;
    }
    return resolve_deep(index);
  }
  if (PySlice_Check(index)) {
    auto* slice = reinterpret_cast<PySliceObject*>(index);
    return resolve_deep(index) && is_constant(slice->start) && is_constant(slice->stop) && is_constant(slice->step);
  }
  if (guards::is_plain_tensor(index)) return resolve(index);
  return is_constant(index);
}

/// A fresh dict or list of a class that leaves `method` to dict or list.
bool Recorder::is_fresh_subclass(PyObject* object, PyTypeObject* base, const char* method) {
  return is_fresh(object) && is_subclass(object, base, method);
}

/// A dict or list of a class that leaves `method` to dict or list.
bool Recorder::is_subclass(PyObject* object, PyTypeObject* base, const char* method) {
  PyTypeObject* type = Py_TYPE(object);
  if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE) || !PyType_IsSubtype(type, base)) return false;
  Ref name = Ref::steal(PyUnicode_InternFromString(method));
  PyObject* found = _PyType_Lookup(type, name.get());
  guards_.note_type_lookup(type, name.get(), found);
  return found == _PyType_Lookup(base, name.get());
}

namespace {

/// A list or tuple of numbers or texts, all of one type.
bool holds_only_operands(PyObject* sequence) {
  if (!(PyList_CheckExact(sequence) || PyTuple_CheckExact(sequence)) || Py_SIZE(sequence) == 0) return false;
  PyObject** items = PySequence_Fast_ITEMS(sequence);
  bool operand = PyLong_CheckExact(items[0]) || PyFloat_CheckExact(items[0]) || PyUnicode_CheckExact(items[0]);
  for (Py_ssize_t i = 0; i < Py_SIZE(sequence); i++) operand = operand && Py_TYPE(items[i]) == Py_TYPE(items[0]);
  return operand;
}

}  // namespace

/// An item of a list or tuple from outside at a number that is read from outside too: another one where the number is.
std::optional<Flow> Recorder::item_at_host(PyObject* container, PyObject* key) {
  const bool sequence = PyList_CheckExact(container) || PyTuple_CheckExact(container);
  if (!sequence || !is_host(key) || is_volatile(key) || !PyLong_CheckExact(key) || vm::current_machine() != &machine_) return std::nullopt;
  const SourceId source = source_of(container);
  const HostStep& step = host_.steps()[static_cast<std::size_t>(hosts_.at(key).second)];
  if (source == kNoSource || step.kind != HostKind::kSource || is_dirty(container)) return std::nullopt;
  const Py_ssize_t at = PyLong_AsSsize_t(key);
  if (at < 0 || at >= Py_SIZE(container)) {
    PyErr_Clear();
    return std::nullopt;
  }
  PyObject* item = PySequence_Fast_ITEMS(container)[at];
  return learn_external(item, guards_.read(SourceKind::kItemAt, source, step.index, nullptr)) ? Flow::kRun : cut(BreakId::k_unknown_object, "an item");
}

Flow Recorder::subscript(vm::Activation& activation, const Instruction& in) {
  PyObject *container = activation.peek(2), *key = activation.peek(1);
  auto label = [&] { return std::string(Py_TYPE(container)->tp_name) + "[" + Py_TYPE(key)->tp_name + "]"; };
  if (!resolve(container) || !resolve(key)) return cut(BreakId::k_unknown_object, label());
  if (guards::is_plain_tensor(container)) {
    make_index_of_lists(container, activation.stack_pointer - 1);
    make_numbers_of_bounds(activation.stack_pointer - 1);
    key = activation.peek(1);
    if (auto done = index_tensor(activation, in, container, key, 2)) return *done;
  }
  if (guards::is_plain_tensor(container) && is_host(key) && PyLong_CheckExact(key)) {
    Flow flow = prepare(activation, in, 2, Then::kLearnTop);
    offer_hosts({key}, 2, nullptr);
    return flow;
  }
  if (guards::is_plain_tensor(container)) return index_ok(key) ? prepare(activation, in, 2, Then::kLearnTop) : cut(BreakId::k_opaque_operation, label());
  if (is_volatile(key)) {
    // One of some numbers or texts: which one is computed.
    static const python::Kept getitem = import_path("operator:getitem");
    if (!holds_only_operands(container) || !resolve_deep(container) || !getitem) return cut_unsettled(BreakId::k_changing_number, label().c_str());
    Ref items = Ref::steal(PySequence_Tuple(container));
    return compute_host(activation, in, HostKind::kCall, 0, {items.get(), key}, getitem.get(), 2);
  }
  if (auto done = item_at_host(container, key)) return *done;
  bool constant_key = is_constant(key);
  SourceId source = source_of(container);
  if (PyDict_CheckExact(container) || PyODict_CheckExact(container)) {
    bool identity_key = is_class_key(key) || (source_of(key) != kNoSource && PyFunction_Check(key));
    // A weak reference to a class hashes and compares as the class does.
    if (PyWeakref_CheckRefExact(key) && is_fresh(key) && stays_plain_class(PyWeakref_GET_OBJECT(key))) identity_key = true;
    if (!constant_key && !identity_key && !(is_fresh(key) && resolve_deep(key))) return cut(BreakId::k_opaque_operation, label());
    if (source == kNoSource || was_written(container, key)) return prepare(activation, in, 2, Then::kLearnTop);
    PyObject* value = constant_key || identity_key ? PyDict_GetItemWithError(container, key) : nullptr;
    if (value == nullptr && constant_key && is_handled(activation)) {
      guards_.check_absent(source, key);
      return prepare(activation, in, 2, Then::kLearnTop);
    }
    if (value == nullptr) return cut(BreakId::k_raise, label());
    return learn_external(value, guards_.read(SourceKind::kDictItem, source, 0, key)) ? Flow::kRun : cut(BreakId::k_unknown_object, label());
  }
  if (PyList_CheckExact(container) || PyTuple_Check(container) || is_fresh_subclass(container, &PyList_Type, "__getitem__")) {
    if (source == kNoSource && python_method(key, "__index__")) return prepare(activation, in, 2, Then::kLearnTop);
    if (source == kNoSource) return constant_key || PySlice_Check(key) ? prepare(activation, in, 2, Then::kLearnTop) : cut(BreakId::k_opaque_operation, label());
    if (is_dirty(container)) return cut(BreakId::k_read_after_write, label());
    if (PyLong_CheckExact(key) && PyTuple_Check(container) && Py_TYPE(container)->tp_flags & Py_TPFLAGS_HEAPTYPE && python_method(container, "__getitem__"))
      return cut(BreakId::k_opaque_operation, label());
    if (PyLong_CheckExact(key)) {
      Py_ssize_t index = PyLong_AsSsize_t(key), length = Py_SIZE(container);
      if (index < 0) {
        guards_.check_length(source, length);
        index += length;
      }
      if (index < 0 || index >= length) return cut(BreakId::k_raise, label());
      PyObject* value = PyList_Check(container) ? PyList_GET_ITEM(container, index) : PyTuple_GET_ITEM(container, index);
      return learn_external(value, guards_.read(SourceKind::kSequenceItem, source, static_cast<std::int32_t>(index), nullptr))
                 ? Flow::kRun
                 : cut(BreakId::k_unknown_object, label());
    }
    return resolve_deep(container) && PySlice_Check(key) ? prepare(activation, in, 2, Then::kLearnTop) : cut(BreakId::k_opaque_operation, label());
  }
  bool tensor = false;
  if (constant_key && source != kNoSource && PyDict_Check(container) && !is_dirty(container)) {
    // A class of its own with a key that is there: dict's own look-up.
    static PyObject* const getitem_name = PyUnicode_InternFromString("__getitem__");
    PyObject* found = _PyType_Lookup(Py_TYPE(container), getitem_name);
    guards_.note_type_lookup(Py_TYPE(container), getitem_name, found);
    PyObject* value = found == _PyType_Lookup(&PyDict_Type, getitem_name) && !was_written(container, key) ? PyDict_GetItemWithError(container, key) : nullptr;
    if (value) return learn_external(value, guards_.read(SourceKind::kDictItem, source, 0, key)) ? Flow::kRun : cut(BreakId::k_unknown_object, label());
  }
  if (constant_key && is_fresh_subclass(container, &PyDict_Type, "__getitem__")) {
    mutations_++;  // a __missing__ may add the key
    return prepare(activation, in, 2, Then::kLearnTop);
  }
  if (is_fresh(container) && constant_key && is_plain_temporary(container)) {
    std::string_view kind = Py_TYPE(container)->tp_name;
    if (kind == "collections.defaultdict") mutations_++;  // the key may be new
    if (kind == "collections.defaultdict" || kind == "collections.deque") return prepare(activation, in, 2, Then::kLearnTop);
  }
  if (constant_key && (is_constant(container) || Py_TYPE(container) == &PyRange_Type) && operand_ok(key, &tensor))
    return prepare(activation, in, 2, Then::kLearnTop);
  if (is_constant(container) && PySlice_Check(key)) return prepare(activation, in, 2, Then::kLearnTop);
  // list[int] and the like: a fresh object that only names classes.
  PyTypeObject* const generic[] = {&PyList_Type, &PyTuple_Type, &PyDict_Type, &PySet_Type, &PyFrozenSet_Type, &PyType_Type};
  bool names_classes = std::find(std::begin(generic), std::end(generic), reinterpret_cast<PyTypeObject*>(container)) != std::end(generic);
  if (names_classes && resolve_deep(key)) return prepare(activation, in, 2, Then::kLearnTop);
  if (PyObject* method = python_method(container, "__getitem__"))
    return push(activation, in, method, {container, key}, 2, nullptr, 2, vm::Continuation::kPushResult);
  return cut(BreakId::k_opaque_operation, label());
}

Flow Recorder::slice(vm::Activation& activation, const Instruction& in) {
  PyObject* container = activation.peek(3);
  if (guards::is_plain_tensor(container)) {
    for (PyObject** bound : {activation.stack_pointer - 1, activation.stack_pointer - 2}) {
      if (Ref number = number_of_bound(*bound)) const Ref old = Ref::steal(std::exchange(*bound, number.release()));
    }
  }
  if (is_open_size(container) && is_constant(activation.peek(1)) && is_constant(activation.peek(2))) return prepare(activation, in, 3, Then::kLearnTop);
  const bool late = is_late(activation.peek(1)) || is_late(activation.peek(2));
  if ((records_sizes() || late) && guards::is_plain_tensor(container) && !python_method(container, "__getitem__")) {
    Ref key = Ref::steal(PySlice_New(activation.peek(2), activation.peek(1), Py_None));
    if (auto done = index_tensor(activation, in, container, key.get(), 3)) return *done;
  }
  if (!resolve(container) || !is_constant(activation.peek(1)) || !is_constant(activation.peek(2)))
    return cut(BreakId::k_opaque_operation, "a slice");
  if (PyObject* method = python_method(container, "__getitem__")) {
    Ref index = Ref::steal(PySlice_New(activation.peek(2), activation.peek(1), Py_None));
    learn_fresh(index.get());
    return push(activation, in, method, {container, index.get()}, 2, nullptr, 3, vm::Continuation::kPushResult);
  }
  bool tensor = false;
  bool range = PyRange_Check(container);
  if (holds_hosts(container) && resolve_deep(container, 0, true)) return prepare(activation, in, 3, Then::kLearnTop);
  if (!operand_ok(container, &tensor) && !PyTuple_CheckExact(container) && !range) return cut(BreakId::k_opaque_operation, "a slice");
  return prepare(activation, in, 3, Then::kLearnTop);
}

Flow Recorder::store_subscript(vm::Activation& activation, const Instruction& in) {
  PyObject *key = activation.peek(1), *container = activation.peek(2), *value = activation.peek(3);
  if (!resolve(container) || !resolve(key) || !resolve(value)) return cut(BreakId::k_unknown_object, Py_TYPE(container)->tp_name);
  if (guards::is_plain_tensor(container)) {
    bool plain_value = guards::is_plain_tensor(value) || is_constant(value);
    make_index_of_lists(container, activation.stack_pointer - 1);
    key = activation.peek(1);
    if (plain_value) {
      if (auto done = index_tensor(activation, in, container, key, 3)) return *done;
    }
    return plain_value && index_ok(key) ? prepare(activation, in, 3, Then::kNothing) : cut(BreakId::k_opaque_operation, "a store into a tensor");
  }
  bool constant_key = is_constant(key);
  bool default_dict = is_fresh(container) && std::string_view(Py_TYPE(container)->tp_name) == "collections.defaultdict";
  if (default_dict || PyDict_CheckExact(container) || PyList_CheckExact(container) || PyODict_CheckExact(container)) {
    if (source_of(container) == kNoSource) {
      if (!constant_key && !(PySlice_Check(key) && PyList_CheckExact(container)) && !(is_fresh(key) && resolve_deep(key)))
        return cut(BreakId::k_opaque_operation, "a store into a container");
      mutations_++;
      return prepare(activation, in, 3, Then::kNothing);
    }
    if (!constant_key || PyODict_CheckExact(container) || is_dirty(container)) return cut(BreakId::k_opaque_operation, "a store into a container");
    if (PyList_CheckExact(container)) {
      Py_ssize_t index = PyLong_CheckExact(key) ? PyLong_AsSsize_t(key) : -1;
      if (index < 0 || index >= PyList_GET_SIZE(container)) return cut(BreakId::k_opaque_operation, "a store into a list");
      guards_.check_length(source_of(container), PyList_GET_SIZE(container));
      dirty_.insert(container);
    } else {
      written_keys_[container].push_back(Ref::borrow(key));
    }
    mutations_++;
    effects_.push_back({EffectKind::kSetItem, Ref::borrow(container), Ref::borrow(key), Ref::borrow(value)});
    return Flow::kRun;
  }
  if (constant_key && (is_fresh_subclass(container, &PyDict_Type, "__setitem__") || is_fresh_subclass(container, &PyList_Type, "__setitem__"))) {
    if (!resolve_deep(value)) return cut(BreakId::k_opaque_operation, "a store into a container");
    mutations_++;
    return prepare(activation, in, 3, Then::kNothing);
  }
  if (PyObject* method = python_method(container, "__setitem__"))
    return push(activation, in, method, {container, key, value}, 3, nullptr, 3, vm::Continuation::kDrop);
  return cut(BreakId::k_opaque_operation, std::string("a store into a ") + Py_TYPE(container)->tp_name);
}

namespace {

bool is_tuple_of_constants(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
    PyObject* item = PyTuple_GET_ITEM(tuple, i);
    if (!is_plain_constant(item) && !(PyTuple_CheckExact(item) && is_tuple_of_constants(item))) return false;
  }
  return true;
}

}  // namespace

/// What is hashed and compared by its contents has contents that are guarded.
bool Recorder::is_key_known(PyObject* key) { return !(PyTuple_Check(key) || PyFrozenSet_CheckExact(key)) || resolve_deep(key); }

Flow Recorder::build(vm::Activation& activation, const Instruction& in) {
  int operands = in.argument;
  if (in.opcode == Opcode::kBuildMap) operands *= 2;
  if (in.opcode == Opcode::kBuildConstKeyMap) operands += 1;
  for (int i = 1; i <= operands; i++) {
    PyObject* item = activation.peek(i);
    if (!resolve(item)) return cut(BreakId::k_unknown_object, Py_TYPE(item)->tp_name);
    if (in.opcode == Opcode::kBuildSlice && !(records_sizes() && PyLong_CheckExact(item) && !is_volatile(item))) is_constant(item);
    bool hashed = in.opcode == Opcode::kBuildSet || (in.opcode == Opcode::kBuildMap && i % 2 == 0);
    if (hashed && !is_constant(item) && !(Py_TYPE(item)->tp_hash == PyBaseObject_Type.tp_hash) && !PyType_Check(item) && !(PyTuple_CheckExact(item) && is_tuple_of_constants(item)))
      return cut(BreakId::k_opaque_operation, "a key whose class defines __hash__");
    if (hashed && !settle_hidden(item)) return cut_unsettled(BreakId::k_changing_number, "a key");
    if (hashed && !is_key_known(item)) return cut(BreakId::k_unknown_object, "a key");
  }
  return prepare(activation, in, operands, Then::kLearnTop);
}

/// Notes that a list from outside gets the items of another sequence, one by one. The doing is the VM's.
bool Recorder::append_all(PyObject* list, PyObject* items) {
  if (!PyList_CheckExact(list) || !(PyList_CheckExact(items) || PyTuple_CheckExact(items)) || items == list || !resolve(items) || !resolve_deep(items, 0, true) || is_dirty(items)) return false;
  mutations_++;
  dirty_.insert(list);
  for (Py_ssize_t i = 0; i < Py_SIZE(items); i++) {
    effects_.push_back({EffectKind::kAppend, Ref::borrow(list), Ref(), Ref::borrow(PyList_Check(items) ? PyList_GET_ITEM(items, i) : PyTuple_GET_ITEM(items, i))});
  }
  return true;
}

Flow Recorder::extend(vm::Activation& activation, const Instruction& in) {
  PyObject* source = activation.peek(1);
  PyObject* target = activation.peek(in.argument + 1);
  if (!is_fresh(target)) return cut(BreakId::k_opaque_operation, "an outside container extended");
  mutations_++;
  if (PyAnySet_Check(target) && is_fresh(source) && PyObject_HasAttrString(source, "mapping")) specialise_all();  // a view of a dict
  if (PyAnySet_Check(target) && any_unsettled()) return cut_unsettled(BreakId::k_changing_number, "a set");
  bool keep = !PyAnySet_Check(target) && (PyList_CheckExact(source) || PyTuple_CheckExact(source) || is_open_size(source) || PyDict_CheckExact(source));
  if (!resolve_deep(source, 0, keep)) return cut(BreakId::k_opaque_operation, std::string("unpacking a ") + Py_TYPE(source)->tp_name);
  if (PyAnySet_Check(source) && !PyAnySet_Check(target) && !has_fixed_order(source)) return cut(BreakId::k_opaque_operation, "the order of a set of objects");
  if (PyAnySet_Check(target)) note_set_written(target, nullptr);
  Flow flow = prepare(activation, in, 1, PyList_CheckExact(target) ? Then::kExtended : Then::kNothing);
  pending_.count = in.argument;
  return flow;
}

Flow Recorder::append(vm::Activation& activation, const Instruction& in) {
  int operands = in.opcode == Opcode::kMapAdd ? 2 : 1;
  PyObject* target = activation.peek(in.argument + operands);
  for (int i = 1; i <= operands; i++) {
    if (!resolve(activation.peek(i))) return cut(BreakId::k_unknown_object, Py_TYPE(activation.peek(i))->tp_name);
  }
  if (!is_fresh(target)) return cut(BreakId::k_opaque_operation, "an outside container extended");
  if (in.opcode != Opcode::kListAppend && PyTuple_Check(activation.peek(operands)) && !settle_hidden(activation.peek(operands))) return cut_unsettled(BreakId::k_changing_number, "a key");
  if (in.opcode != Opcode::kListAppend && !is_key_known(activation.peek(operands))) return cut(BreakId::k_unknown_object, "a key");
  note_compared_by(activation, in);
  if (in.opcode == Opcode::kSetAdd) note_set_written(target, activation.peek(1));
  mutations_++;
  return Flow::kRun;
}

Flow Recorder::unpack(vm::Activation& activation, const Instruction& in) {
  PyObject* sequence = activation.peek(1);
  if (!resolve(sequence)) return cut(BreakId::k_unknown_object, Py_TYPE(sequence)->tp_name);
  bool known = PyTuple_Check(sequence) || PyList_CheckExact(sequence) || PyDict_CheckExact(sequence) || is_constant(sequence);
  if (known) {
    if (!resolve_deep(sequence, 0, true)) return cut(BreakId::k_unknown_object, "unpacking");
  } else if (!guards::is_plain_tensor(sequence) && !is_fresh(sequence) && !python_method(sequence, "__iter__")) {
    return cut(BreakId::k_opaque_operation, std::string("unpacking a ") + Py_TYPE(sequence)->tp_name);
  }
  if (PyAnySet_Check(sequence) && !has_fixed_order(sequence)) return cut(BreakId::k_opaque_operation, "the order of a set of objects");
  if (is_fresh(sequence) && PyIter_Check(sequence)) mutations_++;
  Flow flow = prepare(activation, in, 1, Then::kLearnUnpacked);
  pending_.count = in.opcode == Opcode::kUnpackEx ? (in.argument & 0xff) + 1 + (in.argument >> 8) : in.argument;
  return flow;
}

Flow Recorder::get_iter(vm::Activation& activation, const Instruction& in) {
  PyObject* object = activation.peek(1);
  if (!resolve(object)) return cut(BreakId::k_unknown_object, Py_TYPE(object)->tp_name);
  bool heap = Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE;
  if (PyList_CheckExact(object) || PyTuple_Check(object) || PyDict_CheckExact(object) || PyODict_CheckExact(object)) {
    if (!resolve_deep(object, 0, true)) return cut(BreakId::k_unknown_object, "iterating");
    return prepare(activation, in, 1, Then::kLearnTop);
  }
  if (is_subclass(object, &PyList_Type, "__iter__"))
    return learn_items(object) ? prepare(activation, in, 1, Then::kLearnTop) : cut(BreakId::k_unknown_object, "iterating");
  if (is_constant(object) && !heap) return prepare(activation, in, 1, Then::kLearnTop);
  if (guards::is_plain_tensor(object)) return prepare(activation, in, 1, Then::kLearnTop);
  if (is_fresh(object) && PyAnySet_CheckExact(object) && !set_is_plain(object)) return cut(BreakId::k_opaque_operation, "the order of a set of objects");
  if ((!heap || (is_fresh(object) && is_plain_temporary(object))) && (is_fresh(object) || Py_TYPE(object) == &PyRange_Type)) {
    if (!is_fresh(object)) return cut(BreakId::k_opaque_operation, std::string("iterating over an outside ") + Py_TYPE(object)->tp_name);
    return prepare(activation, in, 1, Then::kLearnTop);
  }
  if (PyObject* method = python_method(object, "__iter__")) {
    int flags = reinterpret_cast<PyCodeObject*>(PyFunction_GET_CODE(method))->co_flags;
    if ((flags & CO_GENERATOR) && learn_function_defaults(method)) return prepare(activation, in, 1, Then::kGenerator);
    return push(activation, in, method, {object}, 1, nullptr, 1, vm::Continuation::kPushResult);
  }
  return cut(BreakId::k_opaque_operation, std::string("iterating over a ") + Py_TYPE(object)->tp_name);
}

namespace {

/// More turns than are worth a copy of the body each: such a loop is left to one segment a turn.
bool is_long_loop(PyObject* iterator) {
  constexpr Py_ssize_t kLongRange = 64, kLongSequence = 256;
  const std::string_view name = Py_TYPE(iterator)->tp_name;
  const bool range = name == "range_iterator";
  if (!range && name != "list_iterator" && name != "tuple_iterator") return false;
  return PyObject_LengthHint(iterator, 0) > (range ? kLongRange : kLongSequence);
}

}  // namespace

Flow Recorder::for_iter(vm::Activation& activation, const Instruction& in) {
  PyObject* iterator = activation.peek(1);
  if (!resolve(iterator)) return cut(BreakId::k_unknown_object, Py_TYPE(iterator)->tp_name);
  if (!is_fresh(iterator)) return cut(BreakId::k_loop, Py_TYPE(iterator)->tp_name);
  bool heap = Py_TYPE(iterator)->tp_flags & Py_TPFLAGS_HEAPTYPE;
  if (heap && !is_plain_temporary(iterator)) return cut(BreakId::k_opaque_operation, std::string("an iterator of class ") + Py_TYPE(iterator)->tp_name);
  if (is_long_loop(iterator)) return cut(BreakId::k_size_cap, "a long loop");
  // The iterator moves on: that cannot be undone afterwards.
  Flow flow = prepare(activation, in, 0, Then::kForIter);
  pending_.passes_through = PyGen_CheckExact(iterator);
  mutations_++;
  return flow;
}

Flow Recorder::intrinsic(vm::Activation& activation, const Instruction& in) {
  constexpr int kListToTuple = 6, kUnaryPositive = 5, kStopIteration = 3;
  if (in.opcode == Opcode::kCallIntrinsic1 && (in.argument == kListToTuple || in.argument == kUnaryPositive)) {
    bool tensor = false;
    bool list = in.argument == kListToTuple && PyList_CheckExact(activation.peek(1)) && resolve_deep(activation.peek(1), 0, true);
    if (list || operand_ok(activation.peek(1), &tensor)) return prepare(activation, in, 1, Then::kLearnTop);
  }
  if (in.opcode == Opcode::kCallIntrinsic1 && in.argument == kStopIteration && (vm::current_machine() != &machine_ || activation.resumption != vm::Resumption::kNone)) {
    // A generator that C code closes, or throws into, passes the exception on.
    learn_fresh(activation.peek(1));
    return prepare(activation, in, 1, Then::kFreshTop);
  }
  if (in.opcode == Opcode::kCallIntrinsic1 && in.argument == kStopIteration) return cut(BreakId::k_raise, "in a generator");
  return cut(BreakId::k_opaque_operation, "an intrinsic");
}

/// tensor[start:stop] = value, as with an index that is a slice.
Flow Recorder::store_slice_of_tensor(vm::Activation& activation, const Instruction& in) {
  PyObject *value = activation.peek(4), *container = activation.peek(3), *start = activation.peek(2), *stop = activation.peek(1);
  if (!resolve(container) || !resolve(value)) return cut(BreakId::k_unknown_object, "a store into a slice");
  const Ref key = Ref::steal(PySlice_New(start, stop, Py_None));
  if (guards::is_plain_tensor(value) || is_constant(value)) {
    if (auto done = index_tensor(activation, in, container, key.get(), 4)) return *done;
    if (is_constant(start) && is_constant(stop)) return prepare(activation, in, 4, Then::kNothing);
  }
  return cut(BreakId::k_opaque_operation, "a store into a slice of a tensor");
}

Flow Recorder::store_slice(vm::Activation& activation, const Instruction& in) {
  PyObject *value = activation.peek(4), *container = activation.peek(3);
  if (guards::is_plain_tensor(container)) return store_slice_of_tensor(activation, in);
  const bool constant = is_constant(activation.peek(1)) && is_constant(activation.peek(2));
  if (!constant || !resolve(container) || !resolve(value)) return cut(BreakId::k_opaque_operation, "a store into a slice");
  if (PyObject* method = python_method(container, "__setitem__")) {
    const Ref key = Ref::steal(PySlice_New(activation.peek(2), activation.peek(1), Py_None));
    learn_fresh(key.get());
    return push(activation, in, method, {container, key.get(), value}, 3, nullptr, 4, vm::Continuation::kDrop);
  }
  if (!PyList_CheckExact(container) || !is_fresh(container) || !resolve_deep(value)) return cut(BreakId::k_opaque_operation, "a store into a slice");
  mutations_++;
  return prepare(activation, in, 4, Then::kNothing);
}

Flow Recorder::delete_subscript(vm::Activation& activation, const Instruction& in) {
  PyObject *key = activation.peek(1), *container = activation.peek(2);
  if (!resolve(container) || !resolve(key)) return cut(BreakId::k_unknown_object, Py_TYPE(container)->tp_name);
  bool plain = PyDict_CheckExact(container) || PyList_CheckExact(container) || PyODict_CheckExact(container) || is_plain_temporary(container);
  if (plain && is_fresh(container) && (is_constant(key) || (PySlice_Check(key) && resolve_deep(key)))) {
    mutations_++;
    return prepare(activation, in, 2, Then::kNothing);
  }
  if (PyDict_CheckExact(container) && is_constant(key) && source_of(container) != kNoSource && !is_dirty(container)) {
    PyObject* value = PyDict_GetItemWithError(container, key);
    if (value == nullptr) return cut(BreakId::k_raise, "a key that is not there");
    if (!was_written(container, key)) guards_.check_present(guards_.read(SourceKind::kDictItem, source_of(container), 0, key));
    mutations_++;
    written_keys_[container].push_back(Ref::borrow(key));
    effects_.push_back({EffectKind::kDeleteItem, Ref::borrow(container), Ref::borrow(key), Ref()});
    return prepare(activation, in, 2, Then::kNothing);
  }
  if (PyObject* method = python_method(container, "__delitem__"))
    return push(activation, in, method, {container, key}, 2, nullptr, 2, vm::Continuation::kDrop);
  return cut(BreakId::k_opaque_operation, std::string("del of an item of a ") + Py_TYPE(container)->tp_name);
}

}  // namespace dynrun::trace
