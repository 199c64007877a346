#include "lowering/extern/convolution_parts.h"

namespace dynrun::lowering {
namespace {

constexpr std::int64_t kLongestChain = 1152;  // products: 128 channels under a kernel of 3x3
constexpr std::int64_t kFewestChannels = 64;  // of a part

const onednn::Unary& no_unary() {
  static const onednn::Unary none;
  return none;
}

}  // namespace

std::int64_t convolution_parts(at::IntArrayRef weight_sizes, std::int64_t groups) {
  const std::int64_t channels = weight_sizes[1], products = channels * weight_sizes[2] * weight_sizes[3];
  // A matrix product (1x1) has no other kernel in libtorch either.
  if (groups != 1 || products == channels) return 1;
  std::int64_t parts = 1;
  while (products / parts > kLongestChain && channels % (2 * parts) == 0 && channels / (2 * parts) >= kFewestChannels) parts *= 2;
  return parts;
}

at::Tensor channel_part(const at::Tensor& tensor, std::int64_t index, std::int64_t count) {
  if (count == 1) return tensor;
  const std::int64_t channels = tensor.size(1) / count;
  return tensor.narrow(1, index * channels, channels);
}

std::vector<std::int64_t> channel_part_sizes(at::IntArrayRef sizes, std::int64_t count) {
  std::vector<std::int64_t> part = sizes.vec();
  part[1] /= count;
  return part;
}

at::Tensor convolve(const at::Tensor& input, const std::vector<at::Tensor>& packed, const std::optional<at::Tensor>& bias,
                    const onednn::ConvolutionGeometry& geometry, const onednn::Unary& unary) {
  const auto count = static_cast<std::int64_t>(packed.size());
  at::Tensor sum = onednn::convolution(channel_part(input, 0, count), packed[0], bias, geometry, count == 1 ? unary : no_unary());
  for (std::int64_t index = 1; index < count; ++index) {
    onednn::convolution_add(sum, channel_part(input, index, count), packed[index], {}, geometry, index + 1 == count ? unary : no_unary());
  }
  return sum;
}

void convolve_add(at::Tensor& accumulator, const at::Tensor& input, const std::vector<at::Tensor>& packed, const std::optional<at::Tensor>& bias,
                  const onednn::ConvolutionGeometry& geometry, const onednn::Unary& unary) {
  const auto count = static_cast<std::int64_t>(packed.size());
  for (std::int64_t index = 0; index < count; ++index) {
    onednn::convolution_add(accumulator, channel_part(input, index, count), packed[index], index == 0 ? bias : std::nullopt, geometry,
                            index + 1 == count ? unary : no_unary());
  }
}

}  // namespace dynrun::lowering
