#pragma once
// Convolutions whose results are sums of thousands of products, as sums of convolutions over parts of the channels. oneDNN's kernels
// for channels-last images add all products of a result in one chain: over 2304 products its rounding is 4 times, over 4608 it is 5
// times that of libtorch's kernels for contiguous images, which add block by block. Parts cost 0 to 15 % of such a convolution.

#include "lowering/extern/onednn.h"

namespace dynrun::lowering {

/// How many parts the channels of a weight, [out, in / groups, height, width], are taken in; 1 where one chain is short enough.
std::int64_t convolution_parts(at::IntArrayRef weight_sizes, std::int64_t groups);
/// Part `index` of `count` of a tensor's dimension 1: a view.
at::Tensor channel_part(const at::Tensor& tensor, std::int64_t index, std::int64_t count);
/// The sizes of that part.
std::vector<std::int64_t> channel_part_sizes(at::IntArrayRef sizes, std::int64_t count);

/// onednn::convolution and onednn::convolution_add by the packed parts of a weight.
at::Tensor convolve(const at::Tensor& input, const std::vector<at::Tensor>& packed, const std::optional<at::Tensor>& bias,
                    const onednn::ConvolutionGeometry& geometry, const onednn::Unary& unary);
void convolve_add(at::Tensor& accumulator, const at::Tensor& input, const std::vector<at::Tensor>& packed,
                  const std::optional<at::Tensor>& bias, const onednn::ConvolutionGeometry& geometry, const onednn::Unary& unary);

}  // namespace dynrun::lowering
