#pragma once
// What a convolution node computes, in one form for aten::conv2d, aten::conv2d.padding and aten::convolution.

#include "lowering/extern/arguments.h"
#include "lowering/extern/onednn.h"

namespace dynrun::lowering {

struct ConvolutionCall {
  ValueId input = graph::kNoValue, weight = graph::kNoValue, bias = graph::kNoValue;
  ValueId output = graph::kNoValue;
  std::size_t bias_argument = 2;  // where in the node's arguments
  onednn::ConvolutionGeometry geometry;
};

/// A float32 two-dimensional batched convolution (not transposed) whose weight and bias are known at compile time.
std::optional<ConvolutionCall> match_convolution(const Program& program, const Node& node);
/// The same without asking for known weights: reads arguments and types only.
std::optional<ConvolutionCall> read_convolution(const Program& program, const Node& node);

/// True when oneDNN, with a packed weight and channels-last activations, is at least as fast as libtorch's own operator on
/// contiguous ones; measured once a process.
bool prefers_channels_last(const Program& program, const ConvolutionCall& call);
/// The same for activations as they are laid out now, conversions included; `output` is the type of the final result.
bool packed_is_faster(const Program& program, const ConvolutionCall& call, const TensorType& output);

}  // namespace dynrun::lowering
