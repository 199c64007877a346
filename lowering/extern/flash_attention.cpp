#include "lowering/extern/flash_attention.h"

#include "runtime/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

// Functions that take or give vectors are always inlined: no call passes one.
#pragma GCC diagnostic ignored "-Wpsabi"

namespace dynrun::lowering {
namespace {

constexpr std::int64_t kLanes = 16;
constexpr std::int64_t kRows = 6;  // queries together: 6 x 4 sums fill the registers of AVX-512
constexpr std::int64_t kVectors = 4;
constexpr std::int64_t kKeyBlock = kLanes * kVectors;
constexpr std::int64_t kMostKeys = 4096;

// GCC's vectors: one AVX-512 register, or as many narrower ones as it takes.
using Floats = float __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));
using Ints = std::int32_t __attribute__((vector_size(kLanes * 4), aligned(4), may_alias));

[[gnu::always_inline]] inline Floats load(const float* at) {
  return *reinterpret_cast<const Floats*>(at);
}
[[gnu::always_inline]] inline void store(float* at, const Floats& value) {
  *reinterpret_cast<Floats*>(at) = value;
}

std::int64_t padded_keys(std::int64_t keys) {
  return (keys + kKeyBlock - 1) / kKeyBlock * kKeyBlock;
}

/// Where one block of rows works: its own scores, everyone's transposed keys.
struct Block {
  const FlashAttention* call;
  const float* keys;  // [width, padded keys]
  HeadView value;
  const float* query;
  const float* mask;
  float* output;
  std::int64_t first_row, visible;  // keys that the last row sees
};

/// exp for x <= 0, Cephes' polynomial; 0 below -87, NaN stays.
[[gnu::always_inline]] inline Floats exponential(Floats x) {
  constexpr float kLog2e = 1.44269504f, kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f, kMagic = 12582912.0f,
                  kLeast = -87.0f;
  const auto vanishes = x < kLeast;
  x = vanishes ? Floats{} + kLeast : x;
  const Floats shifted = x * kLog2e + kMagic;
  const Floats whole = shifted - kMagic;
  const Floats r = x - whole * kLn2High - whole * kLn2Low;
  Floats p = Floats{} + 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  Ints bits;
  std::memcpy(&bits, &shifted, sizeof(bits));
  const Ints power = (bits + (127 - 0x4B400000)) << 23;
  Floats factor;
  std::memcpy(&factor, &power, sizeof(factor));
  return vanishes ? Floats{} : p * factor;
}

/// scores[row, :] = query[row, :] . keys, for kCount rows and all visible keys.
template <std::int64_t kCount>
[[gnu::always_inline]] inline void multiply_keys(const Block& block, float* scores, std::int64_t stride) {
  const std::int64_t width = block.call->width, row_stride = block.call->query.row_stride;
  for (std::int64_t key = 0; key < block.visible; key += kKeyBlock) {
    Floats sums[kCount][kVectors] = {};
    for (std::int64_t d = 0; d < width; ++d) {
      const float* panel = block.keys + d * stride + key;
      Floats parts[kVectors];
      for (std::int64_t i = 0; i < kVectors; ++i) parts[i] = load(panel + i * kLanes);
      for (std::int64_t row = 0; row < kCount; ++row) {
        const float factor = block.query[row * row_stride + d];
        for (std::int64_t i = 0; i < kVectors; ++i) sums[row][i] += parts[i] * factor;
      }
    }
    for (std::int64_t row = 0; row < kCount; ++row) {
      for (std::int64_t i = 0; i < kVectors; ++i) store(scores + row * stride + key + i * kLanes, sums[row][i]);
    }
  }
}

/// exp(scale * scores + mask - largest) in place, zero where a key is not to be seen; gives 1 / sum.
[[gnu::always_inline]] inline float soften(const Block& block, float* scores, std::int64_t row) {
  const FlashAttention& call = *block.call;
  const std::int64_t seen = call.causal ? std::min(call.keys, block.first_row + row + 1) : call.keys;
  const std::int64_t end = std::min(padded_keys(call.keys), (block.visible + kKeyBlock - 1) / kKeyBlock * kKeyBlock);
  const float* mask = block.mask == nullptr ? nullptr : block.mask + row * call.mask.row_stride;
  constexpr float kHidden = -std::numeric_limits<float>::infinity();
  for (std::int64_t key = seen; key < end; ++key) scores[key] = kHidden;
  Floats most = Floats{} + kHidden;
  Ints wrong = {};
  std::int64_t key = 0;
  for (; key + kLanes <= seen; key += kLanes) {
    Floats value = load(scores + key) * call.scale;
    if (mask != nullptr) value += load(mask + key);
    store(scores + key, value);
    most = value > most ? value : most;
    wrong |= value != value;  // the comparison above loses NaN
  }
  float largest = kHidden;
  bool is_wrong = false;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) largest = std::max(largest, most[lane]), is_wrong |= wrong[lane] != 0;
  for (; key < seen; ++key) {
    scores[key] = scores[key] * call.scale + (mask != nullptr ? mask[key] : 0.0f);
    largest = std::max(largest, scores[key]), is_wrong |= std::isnan(scores[key]);
  }
  if (is_wrong) largest = std::numeric_limits<float>::quiet_NaN();
  Floats sum = {};
  for (key = 0; key < end; key += kLanes) {
    const Floats value = exponential(load(scores + key) - largest);
    store(scores + key, value);
    sum += value;
  }
  float total = 0;
  for (std::int64_t lane = 0; lane < kLanes; ++lane) total += sum[lane];
  return 1.0f / total;
}

/// output[row, :] = factors[row] * scores[row, :] . values, for kCount rows.
template <std::int64_t kCount, std::int64_t kWidth>
[[gnu::always_inline]] inline void multiply_values(const Block& block, const float* scores, std::int64_t stride,
                                                   const float* factors, std::int64_t d) {
  Floats sums[kCount][kWidth] = {};
  const std::int64_t end = std::min(block.visible, block.call->keys);
  for (std::int64_t key = 0; key < end; ++key) {
    const float* from = block.value.data + key * block.value.row_stride + d;
    Floats parts[kWidth];
    for (std::int64_t i = 0; i < kWidth; ++i) parts[i] = load(from + i * kLanes);
    for (std::int64_t row = 0; row < kCount; ++row) {
      const float factor = scores[row * stride + key];
      for (std::int64_t i = 0; i < kWidth; ++i) sums[row][i] += parts[i] * factor;
    }
  }
  for (std::int64_t row = 0; row < kCount; ++row) {
    float* to = block.output + row * block.call->output_row_stride + d;
    for (std::int64_t i = 0; i < kWidth; ++i) store(to + i * kLanes, sums[row][i] * factors[row]);
  }
}

template <std::int64_t kCount>
[[gnu::always_inline]] inline void run_rows(const Block& block, float* scores) {
  const std::int64_t stride = padded_keys(block.call->keys), width = block.call->width;
  float factors[kCount];
  multiply_keys<kCount>(block, scores, stride);
  for (std::int64_t row = 0; row < kCount; ++row) factors[row] = soften(block, scores + row * stride, row);
  std::int64_t d = 0;
  for (; d + kKeyBlock <= width; d += kKeyBlock) multiply_values<kCount, kVectors>(block, scores, stride, factors, d);
  for (; d < width; d += kLanes) multiply_values<kCount, 1>(block, scores, stride, factors, d);
}

[[gnu::always_inline]] inline void run_block(const Block& block, std::int64_t rows, float* scores) {
  static_assert(kRows == 6);
  switch (rows) {
    case 1:
      return run_rows<1>(block, scores);
    case 2:
      return run_rows<2>(block, scores);
    case 3:
      return run_rows<3>(block, scores);
    case 4:
      return run_rows<4>(block, scores);
    case 5:
      return run_rows<5>(block, scores);
    default:
      return run_rows<6>(block, scores);
  }
}

using Kernel = void (*)(const Block&, std::int64_t, float*);

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512vl,avx512dq,fma,prefer-vector-width=512")]] void block_avx512(const Block& block,
                                                                                           std::int64_t rows, float* scores) {
  run_block(block, rows, scores);
}
[[gnu::target("avx2,fma")]] void block_avx2(const Block& block, std::int64_t rows, float* scores) {
  run_block(block, rows, scores);
}
#endif
void block_plain(const Block& block, std::int64_t rows, float* scores) {
  run_block(block, rows, scores);
}

Kernel choose_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    return block_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return block_avx2;
#endif
  return block_plain;
}

/// [keys, width] -> [width, padded keys], zeros beyond.
void transpose_keys(const float* from, std::int64_t row_stride, std::int64_t keys, std::int64_t width, float* to) {
  const std::int64_t stride = padded_keys(keys);
  for (std::int64_t first = 0; first < stride; first += kLanes) {
    const std::int64_t count = std::clamp<std::int64_t>(keys - first, 0, kLanes);
    for (std::int64_t d = 0; d < width; ++d) {
      float* line = to + d * stride + first;
      for (std::int64_t key = 0; key < count; ++key) line[key] = from[(first + key) * row_stride + d];
      for (std::int64_t key = count; key < kLanes; ++key) line[key] = 0;
    }
  }
}

}  // namespace

bool can_run_flash(std::int64_t keys, std::int64_t width) {
  return width % kLanes == 0 && keys <= kMostKeys;
}

std::int64_t flash_scratch_size(std::int64_t batch, std::int64_t heads, std::int64_t keys, std::int64_t width) {
  return batch * heads * width * padded_keys(keys);
}

void run_flash(const FlashAttention& call) {
  static const Kernel kernel = choose_kernel();
  constexpr std::int64_t kProductsOfATask = 1 << 18;
  const std::int64_t head_count = call.batch * call.heads, stride = padded_keys(call.keys), head_size = call.width * stride;
  const std::int64_t head_grain = std::max<std::int64_t>(1, kProductsOfATask / 8 / head_size);
  runtime::parallel_for(head_count, head_grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const float* from = call.key.data + head / call.heads * call.key.batch_stride + head % call.heads * call.key.head_stride;
      transpose_keys(from, call.key.row_stride, call.keys, call.width, call.scratch + head * head_size);
    }
  });
  const std::int64_t blocks = (call.queries + kRows - 1) / kRows;
  const std::int64_t grain = std::max<std::int64_t>(1, kProductsOfATask / (2 * kRows * head_size));
  runtime::parallel_for(head_count * blocks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scores(static_cast<std::size_t>(kRows * stride));
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t head = task / blocks, batch = head / call.heads, own = head % call.heads, row = task % blocks * kRows;
      const std::int64_t rows = std::min(kRows, call.queries - row);
      auto place = [&](const HeadView& view) { return batch * view.batch_stride + own * view.head_stride; };
      Block block;
      block.call = &call;
      block.keys = call.scratch + head * head_size;
      block.value = call.value;
      block.value.data += place(call.value);
      block.query = call.query.data + place(call.query) + row * call.query.row_stride;
      block.mask = call.mask.data == nullptr ? nullptr : call.mask.data + place(call.mask) + row * call.mask.row_stride;
      block.output =
          call.output + batch * call.output_batch_stride + own * call.output_head_stride + row * call.output_row_stride;
      block.first_row = row;
      block.visible = call.causal ? std::min(call.keys, row + rows) : call.keys;
      kernel(block, rows, scores.data());
    }
  });
}

}  // namespace dynrun::lowering
