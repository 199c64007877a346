// Tensors whose size depends on tensor data (nonzero, unique, a mask as index). They may be passed round, kept and handed out:
// a replay's own stands in their place, and operators take them where it is understood what sizes come out (trace/data_sizes.h).
// What else looks at one, a read of its shape first of all, comes after the segment.

#include "graph/operators.h"
#include "guards/torch_python.h"
#include "python/numbers.h"
#include "trace/recorder.h"

#include <opcode.h>

#include <string_view>

namespace dynrun::trace {

using bytecode::Instruction;
using bytecode::Opcode;
using python::is_number;

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

/// `tensor + 1`, `1 < tensor`, `-tensor`: one operator of the operands, which decides whether it takes them.
bool is_one_operator(const Instruction& in) {
  return in.opcode == Opcode::kUnaryNegative || in.opcode == Opcode::kUnaryInvert || in.opcode == Opcode::kCompareOp || in.opcode == Opcode::kBinaryOp;
}

/// What torch hands to an operator as it is: a number, a tensor of one dimension or more, None, `...`, `:`.
bool is_plain_index(PyObject* item) {
  if (item == Py_None || item == Py_Ellipsis) return true;
  if (PySlice_Check(item)) {
    auto* slice = reinterpret_cast<PySliceObject*>(item);
    return slice->start == Py_None && slice->stop == Py_None && slice->step == Py_None;
  }
  if (PyLong_CheckExact(item)) return true;  // one row: that it is there, the operator finds
  return guards::is_plain_tensor(item) && guards::tensor_of(item).dim() > 0;
}

bool is_plain_key(PyObject* key) {
  if (!PyTuple_CheckExact(key)) return is_plain_index(key);
  return std::all_of(PySequence_Fast_ITEMS(key), PySequence_Fast_ITEMS(key) + PyTuple_GET_SIZE(key), is_plain_index);
}

/// TensorBase.__getitem__ and its kin, which look at sizes before there is an operator.
bool is_container_method(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"__getitem__", "__setitem__", "__delitem__", "__len__", "__iter__", "__contains__", "__reversed__"};
  return names.count(name.substr(name.rfind('.') + 1)) != 0;
}

/// Whether the tensor is contiguous at other sizes too: torch's binding gives it back then, without an operator.
bool is_surely_contiguous(const at::Tensor& tensor) {
  return tensor.is_contiguous() && std::all_of(tensor.sizes().begin(), tensor.sizes().end(), [](std::int64_t size) { return size > 1; });
}

/// Properties of a tensor that no size takes part in.
bool is_sizeless(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"dim", "element_size", "get_device", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_signed", "ndimension", "type"};
  return names.count(name.substr(name.rfind('.') + 1)) != 0;
}

}  // namespace

bool Recorder::is_unsized(PyObject* object) const {
  return object != nullptr && operators_.any_unsized() && guards::is_tensor(object) && operators_.is_unsized(operators_.find(guards::tensor_of(object)));
}

/// Whether the instruction only hands its operands, of which one is unsized, to an operator.
bool Recorder::may_operate_on_unsized(vm::Activation& activation, const Instruction& in, int count) const {
  auto plain = [](PyObject* operand) { return guards::is_plain_tensor(operand) || is_number(operand); };
  if (is_one_operator(in)) {
    for (int i = 1; i <= count; i++) {
      if (!plain(activation.peek(i))) return false;
    }
    return true;
  }
  if (in.opcode == Opcode::kBinarySubscr || in.opcode == Opcode::kStoreSubscr) return guards::is_plain_tensor(activation.peek(2)) && is_plain_key(activation.peek(1));
  return false;
}

std::optional<Flow> Recorder::settle_unsized(vm::Activation& activation, const Instruction& in) {
  if (!operators_.any_unsized()) return std::nullopt;
  const int count = std::min(operands_looked_at(in.opcode), activation.stack_depth());
  const bool operates = count > 0 && may_operate_on_unsized(activation, in, count);
  for (int i = 1; i <= count; i++) {
    if (!is_unsized(activation.peek(i))) continue;
    unsized_asked_ = operates;
    if (!operates) return cut(BreakId::k_data_dependent_operator, bytecode::info(in.opcode).name);
  }
  return std::nullopt;
}

/// A call of C code: what only keeps or passes on its arguments may have them.
bool Recorder::may_take_unsized(const CallSite& site, CallKind kind, PyObject* self, std::string_view name) {
  if (!operators_.any_unsized()) return true;
  if (kind.call_class == CallClass::kPure && name.rfind("_has_torch_function", 0) == 0) return true;
  if (is_unsized(self) && name.substr(name.rfind('.') + 1) == "contiguous" && !is_surely_contiguous(guards::tensor_of(self))) return false;
  if (kind.call_class == CallClass::kTransparent && !is_container_method(name)) {
    // The operator decides; but what is no operator may look at a size.
    unsized_asked_ = is_unsized(self) || std::any_of(site.arguments.begin(), site.arguments.end(), [&](PyObject* argument) { return is_unsized(argument); });
    return true;
  }
  if (kind.model == Model::kMetadata && is_sizeless(name)) return true;
  if (is_unsized(self)) return false;
  const Model model = kind.model;
  if (model == Model::kListAppend || model == Model::kIsInstance || model == Model::kSetAttribute || model == Model::kWriteFresh || model == Model::kNewTuple)
    return true;
  return std::none_of(site.arguments.begin(), site.arguments.end(), [&](PyObject* argument) { return is_unsized(argument); });
}

bool Recorder::is_type_of_unsized(PyObject* tensor, PyObject* name) {
  if (!is_unsized(tensor)) return true;
  for (const char* known : {"dtype", "device", "ndim", "layout", "requires_grad", "is_cuda", "is_sparse", "is_quantized", "is_nested"}) {
    if (PyUnicode_CompareWithASCIIString(name, known) == 0) return true;
  }
  return false;
}

}  // namespace dynrun::trace
