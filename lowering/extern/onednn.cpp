#include "lowering/extern/onednn.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>

namespace at::native {
// Exported by libtorch_cpu, declared in a header that is not installed (ATen/native/mkldnn/Matmul.h).
void mkldnn_matmul(const Tensor& mat1, const Tensor& mat2, const Tensor& result, float beta, float alpha);
}  // namespace at::native

namespace dynrun::lowering::onednn {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using Scalars = c10::List<std::optional<at::Scalar>>;
using OptionalText = std::optional<c10::string_view>;

template <typename Signature>
c10::TypedOperatorHandle<Signature> find(const char* name, const char* overload) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload).typed<Signature>();
}

using ConvolutionSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, at::IntArrayRef,
                                        at::IntArrayRef, at::IntArrayRef, std::int64_t, c10::string_view, Scalars,
                                        OptionalText);
using ConvolutionAddSignature = at::Tensor&(at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                            at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, std::int64_t, c10::string_view,
                                            std::optional<at::Scalar>, OptionalText, Scalars, OptionalText);
using PackConvolutionSignature = at::Tensor(const at::Tensor&, at::IntArrayRef, at::IntArrayRef, at::IntArrayRef, std::int64_t,
                                            at::OptionalIntArrayRef);
using LinearSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const OptionalTensor&, c10::string_view, Scalars,
                                   OptionalText);
using LinearAddSignature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, const OptionalTensor&,
                                      c10::string_view);
using PackLinearSignature = at::Tensor(const at::Tensor&, std::optional<std::int64_t>);

OptionalText algorithm_of(const Unary& unary) {
  return OptionalText(unary.algorithm);
}

}  // namespace

bool available() {
  static const bool present = [] {
    auto& dispatcher = c10::Dispatcher::singleton();
    for (const char* name : {"mkldnn::_convolution_pointwise", "mkldnn::_linear_pointwise",
                             "mkldnn::_reorder_convolution_weight", "mkldnn::_reorder_linear_weight", "mkldnn::_get_mkldnn_serialized_md"}) {
      if (!dispatcher.findSchema({name, ""})) return false;
    }
    return at::Context::hasMKLDNN();
  }();
  return present && at::globalContext().userEnabledMkldnn();
}

c10::List<std::optional<at::Scalar>> Unary::scalar_list() const {
  Scalars list;
  for (double scalar : scalars) list.push_back(at::Scalar(scalar));
  return list;
}

at::Tensor pack_convolution_weight(const at::Tensor& weight, const ConvolutionGeometry& geometry, at::IntArrayRef input_sizes) {
  static const auto op = find<PackConvolutionSignature>("mkldnn::_reorder_convolution_weight", "");
  return op.call(weight.contiguous(), geometry.padding, geometry.stride, geometry.dilation, geometry.groups, input_sizes);
}

std::string layout_of(const at::Tensor& packed) {
  static const auto op = find<at::Tensor(const at::Tensor&)>("mkldnn::_get_mkldnn_serialized_md", "");
  if (!packed.is_mkldnn()) return "plain";
  const at::Tensor bytes = op.call(packed);
  return std::string(static_cast<const char*>(bytes.const_data_ptr()), bytes.nbytes());
}

at::Tensor convolution(const at::Tensor& input, const at::Tensor& packed, const OptionalTensor& bias,
                       const ConvolutionGeometry& geometry, const Unary& unary) {
  static const auto op = find<ConvolutionSignature>("mkldnn::_convolution_pointwise", "");
  return op.call(input, packed, bias, geometry.padding, geometry.stride, geometry.dilation, geometry.groups, unary.name,
                 unary.scalar_list(), algorithm_of(unary));
}

void convolution_add(at::Tensor& accumulator, const at::Tensor& input, const at::Tensor& packed, const OptionalTensor& bias,
                     const ConvolutionGeometry& geometry, const Unary& unary) {
  static const auto op = find<ConvolutionAddSignature>("mkldnn::_convolution_pointwise_", "binary");
  const bool has_unary = unary.name != "none";
  op.call(accumulator, input, packed, bias, geometry.padding, geometry.stride, geometry.dilation, geometry.groups, "add",
          std::nullopt, has_unary ? OptionalText(unary.name) : std::nullopt, unary.scalar_list(),
          has_unary ? algorithm_of(unary) : std::nullopt);
}

at::Tensor pack_linear_weight(const at::Tensor& weight, std::int64_t rows) {
  static const auto op = find<PackLinearSignature>("mkldnn::_reorder_linear_weight", "");
  return op.call(weight.contiguous(), rows);
}

at::Tensor linear(const at::Tensor& input, const at::Tensor& packed, const OptionalTensor& bias, const Unary& unary) {
  static const auto op = find<LinearSignature>("mkldnn::_linear_pointwise", "");
  return op.call(input, packed, bias, unary.name, unary.scalar_list(), algorithm_of(unary));
}

at::Tensor linear_add(const at::Tensor& input, const at::Tensor& other, const at::Tensor& packed, const OptionalTensor& bias) {
  static const auto op = find<LinearAddSignature>("mkldnn::_linear_pointwise", "binary");
  return op.call(input, other, packed, bias, "add");
}

bool has_matmul() {
  static const bool does = [] {
    const at::Tensor a = at::ones({2, 2}, at::kFloat), result = at::empty({2, 2}, at::kFloat);
    try {
      at::native::mkldnn_matmul(a, a, result, 0, 1);
    } catch (const c10::Error&) {
      return false;
    }
    return true;
  }();
  return does;
}

void matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta, float alpha) {
  if (has_matmul()) return at::native::mkldnn_matmul(a, b, result, beta, alpha);
  at::Tensor into = result;
  if (a.dim() == 2) at::addmm_out(into, into, a, b, beta, alpha);
  else at::baddbmm_out(into, into, a, b, beta, alpha);
}

}  // namespace dynrun::lowering::onednn
