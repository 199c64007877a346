// Arrays of NumPy made of recorded tensors, arithmetic on them, and tensors made of the results.
//
// An array is a late value (recorder_late.cpp): it is made, where anybody wants it, when a replay has run its operators. Arithmetic with
// a number is done by torch's operators on the tensor behind it, which round as NumPy does. NumPy tells of overflows and the like as
// warnings or exceptions, as the program has asked: a replay in which one of them could occur raises, and the code itself runs.

#include "guards/torch_python.h"
#include "python/numbers.h"
#include "trace/recorder.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include <opcode.h>

#include <cfloat>
#include <cmath>

namespace dynrun::trace {

using python::Ref;

namespace {

constexpr long kMostExact = 1L << 24;  // integers that are exact in every type of float here

PyObject* numpy_method() {
  static PyObject* const method = import_path("torch._C:TensorBase.numpy").release();
  return method;
}

PyObject* from_numpy_function() {
  static PyObject* const function = import_path("torch._C:_VariableFunctions.from_numpy").release();
  return function;
}

template <typename T>
bool all_normal(const at::Tensor& result, const at::Tensor& from) {
  const T *one = result.const_data_ptr<T>(), *other = from.const_data_ptr<T>();
  bool all = true;
  for (std::int64_t i = 0; i < result.numel(); i++) {
    const T size = std::abs(one[i]);
    all &= size <= std::numeric_limits<T>::max() && (size >= std::numeric_limits<T>::min() || other[i] == 0);
  }
  return all;
}

/// What NumPy has seen may not be resized.
void fix_storage(const at::Tensor& of) { of.storage().unsafeGetStorageImpl()->set_resizable(false); }

/// NumPy's result of a contiguous array has the usual strides; libtorch's may have others for dimensions of size 1, as its operand.
bool has_usual_strides(const at::Tensor& tensor) {
  std::int64_t usual = 1;
  for (std::int64_t i = tensor.dim() - 1; i >= 0; i--) {
    if (tensor.stride(i) != usual) return false;
    usual *= tensor.size(i);
  }
  return true;
}

/// Raises where an element could have overflowed, or come out too small or not a number, and where the strides are not NumPy's.
/// Contiguous tensors of the same type and sizes.
void require_normal(const at::Tensor& result, const at::Tensor& from) {
  TORCH_CHECK(has_usual_strides(result), "an array of other strides");
  const bool all = result.scalar_type() == at::kFloat ? all_normal<float>(result, from) : all_normal<double>(result, from);
  TORCH_CHECK(all, "an array's element is out of range");
  fix_storage(result);
}

TORCH_LIBRARY_FRAGMENT(dynrun, library) {
  library.def("fix_storage(Tensor of) -> ()");
  library.def("require_normal(Tensor result, Tensor of) -> ()");
}
TORCH_LIBRARY_IMPL(dynrun, CompositeExplicitAutograd, library) {
  library.impl("fix_storage", fix_storage);
  library.impl("require_normal", require_normal);
}
// Tensors without contents, of back ends that trace: NumPy does not see them.
TORCH_LIBRARY_IMPL(dynrun, Meta, library) {
  library.impl("fix_storage", [](const at::Tensor&) {});
  library.impl("require_normal", [](const at::Tensor&, const at::Tensor&) {});
}

bool may_be_array(const at::Tensor& tensor) {
  const bool plain = tensor.device().is_cpu() && !tensor.is_conj() && !tensor.is_neg() && !tensor.requires_grad() && !tensor._is_zerotensor();
  return plain && tensor.is_contiguous() && (tensor.scalar_type() == at::kFloat || tensor.scalar_type() == at::kDouble);
}

/// A number that becomes an element of every such array without a word.
std::optional<c10::Scalar> element_of(PyObject* object) {
  if (PyFloat_CheckExact(object)) {
    const double value = PyFloat_AS_DOUBLE(object), size = std::abs(value);
    return value == 0 || (size >= FLT_MIN && size <= FLT_MAX) ? std::optional(c10::Scalar(value)) : std::nullopt;
  }
  int overflow = 0;
  const long value = PyLong_CheckExact(object) ? PyLong_AsLongAndOverflow(object, &overflow) : kMostExact + 1;
  return overflow == 0 && std::labs(value) <= kMostExact ? std::optional(c10::Scalar(static_cast<std::int64_t>(value))) : std::nullopt;
}

template <typename Signature>
c10::TypedOperatorHandle<Signature> operator_of(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

at::Tensor compute(int op, const at::Tensor& array, const c10::Scalar& number, bool reversed) {
  if (op == NB_MULTIPLY) return array.mul(number);
  if (op == NB_ADD) return array.add(number);
  return reversed ? at::rsub(array, number) : array.sub(number);
}

}  // namespace

bool is_array(PyObject* object) { return std::string_view(Py_TYPE(object)->tp_name) == "numpy.ndarray"; }

/// The tensor behind a late array; undefined for any other object.
at::Tensor Recorder::array_tensor(PyObject* object) const {
  auto late = late_.find(object);
  if (late == late_.end()) return {};
  if (late->second.callee.get() == numpy_method()) return guards::tensor_of(late->second.arguments[0].get());
  auto result = array_results_.find(object);
  return result == array_results_.end() ? at::Tensor() : guards::tensor_of(result->second.get());
}

/// `tensor.numpy()`
std::optional<Flow> Recorder::call_array(vm::Activation& activation, const bytecode::Instruction& in, CallSite& site) {
  if (site.callee != numpy_method() || site.arguments.size() != 1 || site.keyword_names || vm::current_machine() != &machine_) return std::nullopt;
  PyObject* object = site.arguments[0];
  if (!guards::is_plain_tensor(object) || !resolve(object) || !may_be_array(guards::tensor_of(object))) return std::nullopt;
  if (is_unsized(object) || operators_.value_of(guards::tensor_of(object)) == graph::kNoValue) return std::nullopt;
  operators_.set_source(source_line(activation, in));
  if (!record_all([&] { operator_of<void(const at::Tensor&)>("dynrun::fix_storage").call(guards::tensor_of(object)); })) return std::nullopt;
  return push_late(activation, numpy_method(), {object}, site.slots);
}

/// Whether what operators are called there could be recorded, and none raised. If not, nothing is recorded.
bool Recorder::record_all(const std::function<void()>& call) {
  const OperatorRecorder::Mark mark = operators_.mark();
  operators_.start_instruction();
  try {
    call();
  } catch (const std::exception&) {
    operators_.refuse(Refusal::kRaised, "numpy");
  }
  if (operators_.refusal() == Refusal::kNone) return true;
  operators_.rewind(mark);
  operators_.clear_refusal();
  return false;
}

/// `array * 2`, `1 - array`
std::optional<Flow> Recorder::array_binary(vm::Activation& activation, const bytecode::Instruction& in) {
  if (late_.empty() || vm::current_machine() != &machine_ || operators_.wrote_outside()) return std::nullopt;
  PyObject *left = activation.peek(2), *right = activation.peek(1);
  const bool reversed = !array_tensor(left).defined();
  const at::Tensor array = array_tensor(reversed ? right : left);
  PyObject* other = reversed ? left : right;
  if (!array.defined() || array.dim() == 0 || array.numel() == 0) return std::nullopt;  // of one number NumPy makes a number, of none other strides
  if (!(in.argument == NB_ADD || in.argument == NB_SUBTRACT || in.argument == NB_MULTIPLY)) return std::nullopt;
  const auto number = element_of(other);
  if (!number || is_unsettled(other) || !is_constant(other) || (in.argument == NB_MULTIPLY && number->toDouble() == 0)) return std::nullopt;
  operators_.set_source(source_line(activation, in));
  at::Tensor result;
  const bool recorded = record_all([&] {
    result = compute(in.argument, array, *number, reversed);
    operator_of<void(const at::Tensor&, const at::Tensor&)>("dynrun::require_normal").call(result, in.argument == NB_MULTIPLY ? array : result);
  });
  if (!recorded) return std::nullopt;
  Ref tensor = Ref::steal(guards::wrap(result));
  Ref shared = tensor ? make_late(numpy_method(), {tensor.get()}, 0) : Ref();
  Ref copy = shared ? Ref::steal(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(shared.get())), "copy")) : Ref();
  Ref own = copy ? make_late(copy.get(), {shared.get()}, 0) : Ref();
  if (!own) {
    PyErr_Clear();
    return cut(BreakId::k_opaque_operation, "an operator on numpy.ndarray");
  }
  operators_.freeze(result);
  array_results_[own.get()] = tensor;
  return give(activation, std::move(own), 2);
}

/// `torch.from_numpy` of what arithmetic gave, where nobody else has it: the tensor is that result itself.
std::optional<Flow> Recorder::call_from_array(vm::Activation& activation, CallSite& site) {
  if (array_results_.empty() || site.callee != from_numpy_function() || site.arguments.size() != 1 || site.keyword_names || vm::current_machine() != &machine_) return std::nullopt;
  auto result = array_results_.find(site.arguments[0]);
  // The stack's reference and the one of `late_`.
  if (result == array_results_.end() || Py_REFCNT(result->first) != 2) return std::nullopt;
  const at::Tensor& tensor = guards::tensor_of(result->second.get());
  if (tensor.is_inference() != c10::InferenceMode::is_enabled()) return std::nullopt;
  return give(activation, result->second, site.slots);
}

}  // namespace dynrun::trace
