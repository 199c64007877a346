#pragma once
// Linear layers too small for a library call: oneDNN's and MKL's entry costs microseconds, these take tens of nanoseconds.

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dynrun::lowering {

/// A weight [out, in] as panels of 16 outputs, each panel [in, 16], zeros beyond `out`.
at::Tensor pack_small_weight(const at::Tensor& weight);

struct SmallLinear {
  const float* input;   // [rows, columns_in]
  const float* packed;  // pack_small_weight's
  const float* bias;    // [columns_out], or null
  const float* addend;  // [rows, columns_out], or null
  float* output;        // [rows, columns_out]
  std::int64_t rows, columns_in, columns_out;
  bool relu;
};

/// output = relu(input @ weight^T + bias + addend) on this thread; relu keeps NaN.
void run_small_linear(const SmallLinear& call);

}  // namespace dynrun::lowering
