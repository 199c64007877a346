#include "trace/truth.h"

#include "guards/torch_python.h"

#include <ATen/core/Tensor.h>

#include <optional>

namespace dynrun::trace {
namespace {

using bytecode::Opcode;

/// How far below the top of the stack the object lies whose truth is asked for; 0: it is not.
int asked_at(vm::Activation& activation) {
  const bytecode::Instruction& in = activation.code->instructions[static_cast<std::size_t>(activation.pc)];
  switch (in.opcode) {
    case Opcode::kPopJumpIfTrue:
    case Opcode::kPopJumpIfFalse:
    case Opcode::kUnaryNot: return 1;
    case Opcode::kCall: {
      const bool of_bool = in.argument == 1 && in.keyword_names < 0 && activation.peek(3) == nullptr && activation.peek(2) == reinterpret_cast<PyObject*>(&PyBool_Type);
      return of_bool ? 1 : 0;
    }
    default: return 0;
  }
}

/// Tensor.__bool__ is torch's own.
bool asks_torch(PyObject* tensor) {
  static PyObject* const name = PyUnicode_InternFromString("__bool__");
  static PyObject* const own = _PyType_Lookup(Py_TYPE(tensor), name);
  return own != nullptr && !PyFunction_Check(own) && _PyType_Lookup(Py_TYPE(tensor), name) == own;
}

std::optional<bool> truth_of(const at::Tensor& tensor) {
  const bool readable = tensor.defined() && tensor.device().is_cpu() && tensor.layout() == c10::kStrided && !tensor.is_quantized() && !tensor.is_nested() &&
                        tensor.has_storage() && !tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor();
  if (!readable || tensor.numel() != 1) return std::nullopt;
  switch (tensor.scalar_type()) {
#define DYNRUN_TRUTH(type, name) \
  case at::k##name: return *tensor.const_data_ptr<type>() != type(0);
    AT_FORALL_SCALAR_TYPES_AND3(Bool, Half, BFloat16, DYNRUN_TRUTH)
#undef DYNRUN_TRUTH
    default: return std::nullopt;
  }
}

}  // namespace

bool settle_truth(vm::Activation& activation) {
  const int depth = asked_at(activation);
  if (depth == 0) return false;
  PyObject*& object = activation.stack_pointer[-depth];
  if (object == nullptr || !guards::is_plain_tensor(object) || !asks_torch(object)) return false;
  const std::optional<bool> truth = truth_of(guards::tensor_of(object));
  if (!truth) return false;
  Py_SETREF(object, Py_NewRef(*truth ? Py_True : Py_False));
  return true;
}

}  // namespace dynrun::trace
