// Tensors whose size depends on tensor data (nonzero, unique, a mask as index). They may be passed round, kept and handed out:
// a replay's own stands in their place, and elementwise operators and sums take them. What else looks at one, be it an operator or
// a read of its shape, comes after the segment.

#include "graph/operators.h"
#include "guards/torch_python.h"
#include "trace/recorder.h"

#include <opcode.h>

#include <string_view>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;

namespace {

/// How many operands from the top of the stack the instruction looks into, and does not only pass on.
int operands_looked_at(Opcode opcode) {
  switch (opcode) {
    case Opcode::kUnaryNegative:
    case Opcode::kUnaryInvert:
    case Opcode::kUnaryNot:
    case Opcode::kPopJumpIfTrue:
    case Opcode::kPopJumpIfFalse:
    case Opcode::kGetIter:
    case Opcode::kGetYieldFromIter:
    case Opcode::kUnpackSequence:
    case Opcode::kUnpackEx:
    case Opcode::kMatchSequence:
    case Opcode::kMatchMapping:
    case Opcode::kGetLen:
    case Opcode::kListExtend:
    case Opcode::kSetUpdate:
    case Opcode::kDictUpdate:
    case Opcode::kDictMerge:
    case Opcode::kCallIntrinsic1:
    case Opcode::kBeforeWith:
    case Opcode::kStoreAttr:
    case Opcode::kDeleteAttr: return 1;
    case Opcode::kBinaryOp:
    case Opcode::kCompareOp:
    case Opcode::kContainsOp:
    case Opcode::kBinarySubscr:
    case Opcode::kStoreSubscr:
    case Opcode::kDeleteSubscr:
    case Opcode::kFormatValue:
    case Opcode::kMatchKeys:
    case Opcode::kSend: return 2;
    case Opcode::kBinarySlice:
    case Opcode::kStoreSlice: return 3;
    default: return 0;
  }
}

bool is_number(PyObject* object) { return PyLong_CheckExact(object) || PyFloat_CheckExact(object); }

/// `tensor + 1`, `1 < tensor`, `tensor * tensor`: operators of tensors of any size, if of one size.
bool is_arithmetic(const Instruction& in) {
  if (in.opcode == Opcode::kUnaryNegative || in.opcode == Opcode::kCompareOp) return true;
  if (in.opcode != Opcode::kBinaryOp) return false;
  return in.argument == NB_ADD || in.argument == NB_SUBTRACT || in.argument == NB_MULTIPLY || in.argument == NB_TRUE_DIVIDE;
}

/// torch.relu(tensor), tensor.clamp(0), tensor.sum(): an operator of one tensor and numbers.
bool is_call_of_any_size(const std::vector<PyObject*>& arguments, PyObject* self, std::string_view name) {
  name = name.substr(name.rfind('.') + 1);
  if (!graph::is_elementwise(name) && !graph::sums_up(name)) return false;
  const bool method = self && guards::is_tensor(self);
  std::size_t tensors = method ? 1 : 0, others = 0;
  for (PyObject* argument : arguments) {
    if (method && argument == self) continue;
    if (guards::is_tensor(argument)) tensors++;
    else others += is_number(argument) && !graph::sums_up(name) ? 0 : 1;
  }
  return tensors == 1 && others == 0;
}

constexpr int kDeepest = 4;  // as tensors lie in arguments: torch.cat(tensors), tensor[:, (mask, None)]

}  // namespace

bool Recorder::is_unsized(PyObject* object, int depth) {
  if (object == nullptr || !operators_.any_unsized()) return false;
  if (guards::is_tensor(object)) return operators_.is_unsized(operators_.find(guards::tensor_of(object)));
  if (depth == 0) return false;
  if (PyTuple_Check(object) || PyList_Check(object)) {
    for (Py_ssize_t i = 0; i < Py_SIZE(object); i++) {
      if (is_unsized(PyTuple_Check(object) ? PyTuple_GET_ITEM(object, i) : PyList_GET_ITEM(object, i), depth - 1)) return true;
    }
  }
  Py_ssize_t at = 0;
  PyObject* value = nullptr;
  while (PyDict_Check(object) && PyDict_Next(object, &at, nullptr, &value)) {
    if (is_unsized(value, depth - 1)) return true;
  }
  return false;
}

/// Operands of which one is unsized and the other a number, itself, or of its size.
bool Recorder::fits_unsized(PyObject* left, PyObject* right) {
  if (is_unsettled(left) || is_unsettled(right)) return false;
  if (is_number(left) != is_number(right)) return true;
  if (!guards::is_tensor(left) || !guards::is_tensor(right)) return false;
  return operators_.same_unsized(operators_.find(guards::tensor_of(left)), operators_.find(guards::tensor_of(right)));
}

std::optional<Flow> Recorder::settle_unsized(vm::Activation& activation, const Instruction& in) {
  if (!operators_.any_unsized()) return std::nullopt;
  const int count = std::min(operands_looked_at(in.opcode), activation.stack_depth());
  if (count > 0 && is_arithmetic(in) && fits_unsized(activation.peek(count), activation.peek(1))) return std::nullopt;
  for (int i = 1; i <= count; i++) {
    if (is_unsized(activation.peek(i))) return cut(BreakId::k_data_dependent_operator, bytecode::info(in.opcode).name);
  }
  return std::nullopt;
}

/// A call of C code: what only keeps or passes on its arguments may have them.
bool Recorder::may_take_unsized(const CallSite& site, CallKind kind, PyObject* self, std::string_view name) {
  if (!operators_.any_unsized()) return true;
  if (kind.call_class == CallClass::kPure && name.rfind("_has_torch_function", 0) == 0) return true;
  if (kind.call_class == CallClass::kTransparent && is_call_of_any_size(site.arguments, self, name)) return true;
  if (is_unsized(self)) return false;
  const Model model = kind.model;
  if (model == Model::kListAppend || model == Model::kIsInstance || model == Model::kSetAttribute || model == Model::kWriteFresh || model == Model::kNewTuple)
    return true;
  const int depth = kind.call_class == CallClass::kTransparent ? kDeepest : 0;
  for (PyObject* argument : site.arguments) {
    if (is_unsized(argument, depth)) return false;
  }
  return true;
}

bool Recorder::is_type_of_unsized(PyObject* tensor, PyObject* name) {
  if (!is_unsized(tensor)) return true;
  for (const char* known : {"dtype", "device", "layout", "requires_grad", "is_cuda", "is_sparse", "is_quantized", "is_nested"}) {
    if (PyUnicode_CompareWithASCIIString(name, known) == 0) return true;
  }
  return false;
}

}  // namespace dynrun::trace
