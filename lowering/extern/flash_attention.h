#pragma once
// Attention in one pass over the queries: products, mask, softmax and products again for a few rows at a time, on tensors as
// they are laid out. The scores of a block of rows stay in the cache (FlashAttention's idea, with whole rows instead of an
// online softmax).

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace dynrun::lowering {

/// A tensor [batch, heads, rows, width] whose last dimension is dense; strides in elements.
struct HeadView {
  const float* data = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0, row_stride = 0;
};

struct FlashAttention {
  HeadView query, key, value;
  HeadView mask;  // added to the scores before softmax; no data: none. [batch, heads, queries, keys]
  float* output = nullptr;
  std::int64_t output_batch_stride = 0, output_head_stride = 0, output_row_stride = 0;
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0, width = 0;
  float scale = 1;
  bool causal = false;       // query i sees keys 0 to i
  float* scratch = nullptr;  // flash_scratch_size floats
};

/// The width has to be a multiple of 16, the keys few enough for a block of scores to stay in the cache.
bool can_run_flash(std::int64_t keys, std::int64_t width);
std::int64_t flash_scratch_size(std::int64_t batch, std::int64_t heads, std::int64_t keys, std::int64_t width);
void run_flash(const FlashAttention& call);

}  // namespace dynrun::lowering
