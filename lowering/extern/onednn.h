#pragma once
// The oneDNN kernels that libtorch carries. Its own symbols are hidden: they are reached through the operators that
// torch.compile uses (mkldnn::_convolution_pointwise and its kin) and through at::native::mkldnn_matmul.

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <vector>

namespace dynrun::lowering::onednn {

/// True when libtorch has the operators and the user has not turned oneDNN off.
bool available();

/// A pointwise function that a kernel applies to its result, in oneDNN's words ("relu", "hardtanh" with two scalars, ...).
struct Unary {
  std::string name = "none";
  std::vector<double> scalars;
  std::string algorithm;  // of gelu: "none" or "tanh"

  c10::List<std::optional<at::Scalar>> scalar_list() const;
};

struct ConvolutionGeometry {
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups = 1;
};

/// The weight in the blocked layout that is best for inputs of `input_sizes`. A convolution of others may bring it to another layout at
/// each call, which takes longer than the convolution.
at::Tensor pack_convolution_weight(const at::Tensor& weight, const ConvolutionGeometry& geometry, at::IntArrayRef input_sizes);
/// The layout of a packed weight, as bytes that are others for another layout.
std::string layout_of(const at::Tensor& packed);
/// A new channels-last tensor: unary(convolution(input, packed) + bias).
at::Tensor convolution(const at::Tensor& input, const at::Tensor& packed, const std::optional<at::Tensor>& bias,
                       const ConvolutionGeometry& geometry, const Unary& unary);
/// accumulator = unary(accumulator + convolution(input, packed) + bias); the accumulator is channels-last.
void convolution_add(at::Tensor& accumulator, const at::Tensor& input, const at::Tensor& packed,
                     const std::optional<at::Tensor>& bias, const ConvolutionGeometry& geometry, const Unary& unary);

/// `weight` is [out, in]; `rows` how many rows inputs have.
at::Tensor pack_linear_weight(const at::Tensor& weight, std::int64_t rows);
at::Tensor linear(const at::Tensor& input, const at::Tensor& packed, const std::optional<at::Tensor>& bias, const Unary& unary);
/// A new tensor: linear(input, packed, bias) + other.
at::Tensor linear_add(const at::Tensor& input, const at::Tensor& other, const at::Tensor& packed,
                      const std::optional<at::Tensor>& bias);

/// Whether the processor is one for which libtorch lets oneDNN multiply: with AVX-512, even for float32.
bool has_matmul();

/// result = beta * result + alpha * (a @ b), for two matrices or two batches of them; `result` is contiguous.
/// By libtorch's own call where !has_matmul().
void matmul(const at::Tensor& a, const at::Tensor& b, const at::Tensor& result, float beta, float alpha);

}  // namespace dynrun::lowering::onednn
