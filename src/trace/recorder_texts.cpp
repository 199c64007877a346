// f-strings: what is formatted and joined. Texts of late numbers are in recorder_late.cpp.

#include "guards/torch_python.h"
#include "trace/recorder.h"

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using python::Ref;

/// f"{x.shape}", as torch writes it, with the numbers of each replay.
Flow Recorder::format_size(vm::Activation& activation, const Instruction& in) {
  PyObject* size = activation.peek(1);
  Ref text = Ref::steal(PyObject_Str(size));
  if (!text) {
    PyErr_Clear();
    return cut(BreakId::k_raise);
  }
  std::vector<HostId> pieces;
  bool changing = false;
  auto literal = [&](Ref piece) { pieces.push_back(host_.constant(piece.get())); };
  literal(Ref::steal(PyUnicode_FromString("torch.Size([")));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(size); i++) {
    PyObject* item = PyTuple_GET_ITEM(size, i);
    if (i > 0) literal(Ref::steal(PyUnicode_FromString(", ")));
    changing = changing || is_volatile(item);
    if (is_host(item)) pieces.push_back(host_.compute(HostKind::kFormat, 0, {host_of(item)}, nullptr, text.get()));
    else literal(Ref::steal(PyObject_Str(item)));
  }
  literal(Ref::steal(PyUnicode_FromString("])")));
  const HostId id = host_.compute(HostKind::kJoin, 0, std::move(pieces), nullptr, text.get());
  if (changing) volatile_.insert(id);
  Flow flow = prepare(activation, in, 1, Then::kHostTop);
  pending_.count = id;
  return flow;
}

Flow Recorder::build_string(vm::Activation& activation, const Instruction& in) {
  int operands = in.opcode == Opcode::kBuildString ? in.argument : (in.argument & 4 ? 2 : 1);
  bool any_host = false, plain = true;
  std::vector<PyObject*> parts;
  for (int i = operands; i >= 1; i--) {
    parts.push_back(activation.peek(i));
    any_host = any_host || is_host(parts.back());
    plain = plain && is_operand(parts.back());
  }
  if (any_host && plain)
    return compute_host(activation, in, in.opcode == Opcode::kBuildString ? HostKind::kJoin : HostKind::kFormat,
                        in.opcode == Opcode::kBuildString ? 0 : in.argument & 3, std::move(parts), nullptr, operands);
  PyObject* shown = activation.peek(operands);
  if (in.opcode == Opcode::kFormatValue && operands == 1 && is_open_size(shown) && !holds_late(shown)) return format_size(activation, in);
  if (in.opcode == Opcode::kFormatValue && !guards::is_constant_like(shown) && !guards::is_tensor(shown) && resolve(shown) &&
      (operands == 1 || is_constant(activation.peek(1)))) {
    // Python code of the object's class makes the text: C code calls it.
    int conversion = in.argument & 3;
    bool by_method = conversion == 0 && python_method(shown, "__format__");
    bool plain_format = operands == 1 || conversion != 0;
    if (!by_method && plain_format && conversion < 2) by_method = python_method(shown, "__str__");
    if (!by_method && plain_format) by_method = python_method(shown, "__repr__");
    if (by_method) return prepare(activation, in, operands, Then::kLearnTop);
  }
  for (int i = 1; i <= operands; i++) {
    PyObject* item = activation.peek(i);
    bool enum_like = Py_TYPE(item)->tp_flags & Py_TPFLAGS_HEAPTYPE;
    bool whole = operands == 1 && (has_constant_text(item) || (PyType_Check(item) && resolve(item) && has_guarded_text(item)));
    if (!whole && (!is_constant(item) || enum_like)) return cut(BreakId::k_opaque_operation, std::string("formatting a ") + Py_TYPE(item)->tp_name);
  }
  return prepare(activation, in, operands, Then::kLearnTop);
}

}  // namespace dynrun::trace
