#pragma once
// Weights in the blocked layouts that oneDNN multiplies by. Which layout is the best hangs on the sizes of inputs; lowerings of one
// graph at several sizes share the weights of one layout.

#include "lowering/extern/claim.h"
#include "lowering/extern/onednn.h"

namespace dynrun::lowering {

/// The parts of the weight of the convolution with this result, for inputs of `sizes`.
std::vector<at::Tensor> packed_convolution(const ClaimContext& context, ValueId result, const at::Tensor& weight, const onednn::ConvolutionGeometry& geometry,
                                           const std::vector<std::int64_t>& sizes);
/// The weight, [out, in], of the product with this result, for inputs of `rows` rows.
at::Tensor packed_linear(const ClaimContext& context, ValueId result, const at::Tensor& weight, std::int64_t rows);

}  // namespace dynrun::lowering
