// Common operators where they are only counted: called as they are. The fallback of the recorder's key would make a stack of the
// arguments for each, which takes as long as a tenth of a small operator. Every operator that is not listed goes by the fallback.

#include "trace/operator_keys.h"

#include <ATen/Operators.h>
#include <ATen/core/boxing/impl/boxing.h>

namespace dynrun::trace {
namespace {

template <typename Operator, typename Schema = typename Operator::schema>
struct Counted;

template <typename Operator, typename Result, typename... Arguments>
struct Counted<Operator, Result(Arguments...)> {
  static Result call(c10::DispatchKeySet keys, Arguments... arguments) {
    CallsHere& calls = calls_here;
    if (!calls.only_count()) return call_boxed(keys, std::forward<Arguments>(arguments)...);
    const CountedCall counted(calls);
    return Operator::redispatch(keys & kKeysBehind, std::forward<Arguments>(arguments)...);
  }

 private:
  /// As the dispatcher calls the fallback. Apart from the code that only counts, which stays short so.
  [[gnu::noinline, gnu::cold]] static Result call_boxed(c10::DispatchKeySet keys, Arguments... arguments) {
    static const c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow(Operator::name, Operator::overload_name);
    static const c10::BoxedKernel fallback = c10::BoxedKernel::makeFromFunction<&counted_fallback>();
    return c10::impl::BoxedKernelWrapper<Result(Arguments...)>::call(fallback, handle, keys, std::forward<Arguments>(arguments)...);
  }
};

/// These are called for every tensor that becomes a list or an array. Nearly all are given as they are, which is no operator.
at::Tensor resolve_conj(c10::DispatchKeySet keys, const at::Tensor& self) {
  return calls_here.only_count() && !self.is_conj() ? self : Counted<at::_ops::resolve_conj>::call(keys, self);
}

at::Tensor resolve_neg(c10::DispatchKeySet keys, const at::Tensor& self) {
  return calls_here.only_count() && !self.is_neg() ? self : Counted<at::_ops::resolve_neg>::call(keys, self);
}

/// Operators by their names in at::_ops.
#define DYNRUN_COMMON_OPERATORS(X) \
  X(add_Tensor) X(add_Scalar) X(add__Tensor) X(add__Scalar) X(sub_Tensor) X(sub_Scalar) X(sub__Tensor) X(sub__Scalar) X(mul_Tensor) \
  X(mul_Scalar) X(mul__Tensor) X(mul__Scalar) X(div_Tensor) X(div_Scalar) X(div__Tensor) X(div__Scalar) X(rsub_Scalar) X(rsub_Tensor) \
  X(pow_Tensor_Scalar) X(pow_Tensor_Tensor) X(maximum) X(minimum) X(where_self) X(where_ScalarSelf) X(where_ScalarOther) X(lerp__Scalar) \
  X(lerp_Scalar) X(remainder_Scalar) X(floor_divide) X(floor_divide_Scalar) X(addcmul) X(addcmul_) X(addcdiv) X(addcdiv_) X(eq_Tensor) \
  X(eq_Scalar) X(ne_Tensor) X(ne_Scalar) X(lt_Tensor) X(lt_Scalar) X(le_Tensor) X(le_Scalar) X(gt_Tensor) X(gt_Scalar) X(ge_Tensor) \
  X(ge_Scalar) X(logical_and) X(logical_or) X(logical_not) X(bitwise_and_Tensor) X(bitwise_or_Tensor) X(bitwise_not) X(isnan) X(isfinite) \
  X(neg) X(abs) X(exp) X(log) X(sqrt) X(rsqrt) X(sin) X(cos) X(tanh) X(sigmoid) X(relu) X(erf) X(reciprocal) X(square) X(sign) X(floor) \
  X(round) X(log1p) X(expm1) X(relu_) X(sqrt_) X(neg_) X(exp_) X(gelu) X(silu) X(leaky_relu) X(hardtanh) X(hardtanh_) X(elu) X(softplus) \
  X(clamp) X(clamp_) X(clamp_min) X(clamp_max) X(dropout) X(sum) X(sum_dim_IntList) X(mean) X(mean_dim) X(max) X(max_dim) X(min) \
  X(min_dim) X(amax) X(amin) X(argmax) X(argmin) X(any) X(all) X(any_dim) X(all_dim) X(cumsum) X(prod) X(var_correction) \
  X(std_correction) X(norm_ScalarOpt_dim) X(linalg_vector_norm) X(softmax_int) X(log_softmax_int) X(_softmax) X(_log_softmax) X(topk) \
  X(sort) X(mm) X(bmm) X(addmm) X(baddbmm) X(matmul) X(linear) X(dot) X(mv) X(convolution) X(conv2d) X(batch_norm) X(layer_norm) \
  X(native_layer_norm) X(group_norm) X(max_pool2d) X(avg_pool2d) X(adaptive_avg_pool2d) X(embedding) X(scaled_dot_product_attention) \
  X(cross_entropy_loss) X(nll_loss_forward) X(mse_loss) X(view) X(reshape) X(_unsafe_view) X(t) X(transpose_int) X(permute) X(expand) \
  X(squeeze) X(squeeze_dim) X(unsqueeze) X(select_int) X(slice_Tensor) X(narrow) X(as_strided) X(flatten_using_ints) X(split_Tensor) \
  X(chunk) X(unbind_int) X(detach) X(alias) X(contiguous) X(clone) X(copy_) X(cat) X(stack) X(expand_as) X(view_as) X(index_select) \
  X(gather) X(scatter__src) X(index_put_) X(index_Tensor) X(masked_fill_Scalar) X(masked_fill__Scalar) X(triu) X(tril) X(repeat) \
  X(movedim_int) X(empty_memory_format) X(empty_like) X(empty_strided) X(zeros) X(ones) X(zeros_like) X(ones_like) X(new_zeros) \
  X(new_empty) X(full) X(full_like) X(arange) X(arange_start) X(arange_start_step) X(zero_) X(fill__Scalar) X(fill__Tensor) \
  X(scalar_tensor) X(_to_copy) X(threshold_backward) X(convolution_backward) X(native_batch_norm_backward) X(native_layer_norm_backward) \
  X(gelu_backward) X(silu_backward) X(sigmoid_backward) X(tanh_backward) X(_softmax_backward_data) X(_log_softmax_backward_data) \
  X(embedding_dense_backward) X(max_pool2d_with_indices_backward) X(avg_pool2d_backward) X(mse_loss_backward) X(nll_loss_backward) \
  X(select_backward) X(slice_backward) X(hardtanh_backward) X(native_dropout_backward) X(sum_to_size) X(_foreach_add_Scalar) \
  X(_foreach_add__Scalar) X(_foreach_add_List) X(_foreach_add__List) X(_foreach_add_ScalarList) X(_foreach_add__ScalarList) \
  X(_foreach_add_Tensor) X(_foreach_add__Tensor) X(_foreach_sub_Scalar) X(_foreach_sub__Scalar) X(_foreach_sub_List) \
  X(_foreach_sub__List) X(_foreach_sub_ScalarList) X(_foreach_sub__ScalarList) X(_foreach_mul_Scalar) X(_foreach_mul__Scalar) \
  X(_foreach_mul_List) X(_foreach_mul__List) X(_foreach_mul_ScalarList) X(_foreach_mul__ScalarList) X(_foreach_mul_Tensor) \
  X(_foreach_mul__Tensor) X(_foreach_div_Scalar) X(_foreach_div__Scalar) X(_foreach_div_List) X(_foreach_div__List) \
  X(_foreach_div_ScalarList) X(_foreach_div__ScalarList) X(_foreach_div_Tensor) X(_foreach_div__Tensor) X(_foreach_addcmul_Scalar) \
  X(_foreach_addcmul__Scalar) X(_foreach_addcdiv_Scalar) X(_foreach_addcdiv__Scalar) X(_foreach_addcdiv__ScalarList) \
  X(_foreach_addcmul__ScalarList) X(_foreach_sqrt) X(_foreach_sqrt_) X(_foreach_lerp__Scalar) X(_foreach_zero_) X(_foreach_norm_Scalar) \
  X(_foreach_neg) X(_foreach_reciprocal_) X(_foreach_pow_Scalar) X(_foreach_pow_ScalarAndTensor) X(_foreach_copy_) \
  X(_local_scalar_dense) X(is_nonzero) X(item)

template <typename Operator>
void count_unboxed(torch::Library& library) {
  const std::string overload = Operator::overload_name;
  const std::string name = overload.empty() ? std::string(Operator::name) : std::string(Operator::name) + "." + overload;
  library.impl(name.c_str(), TORCH_FN(Counted<Operator>::call));
}

}  // namespace

void count_common_operators(torch::Library& library) {
#define DYNRUN_COUNT(name) count_unboxed<at::_ops::name>(library);
  DYNRUN_COMMON_OPERATORS(DYNRUN_COUNT)
#undef DYNRUN_COUNT
  library.impl("resolve_conj", TORCH_FN(resolve_conj));
  library.impl("resolve_neg", TORCH_FN(resolve_neg));
}

#undef DYNRUN_COMMON_OPERATORS

}  // namespace dynrun::trace
