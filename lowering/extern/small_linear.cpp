#include "lowering/extern/small_linear.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <cstring>

namespace dynrun::lowering {
namespace {

constexpr std::int64_t kPanel = 16;
constexpr std::int64_t kRows = 4;

// GCC's vectors: one AVX-512 register, or as many narrower ones as it takes.
using Vector = float __attribute__((vector_size(kPanel * sizeof(float)), aligned(4), may_alias));

[[gnu::always_inline]] inline void finish_row(const SmallLinear& call, const Vector& sum, std::int64_t row,
                                              std::int64_t column) {
  const std::int64_t count = std::min(kPanel, call.columns_out - column), at = row * call.columns_out + column;
  float values[kPanel];
  std::memcpy(values, &sum, sizeof(values));
  for (std::int64_t lane = 0; lane < count; ++lane) {
    float value = values[lane];
    if (call.bias != nullptr) value += call.bias[column + lane];
    if (call.addend != nullptr) value += call.addend[at + lane];
    if (call.relu) value = value < 0 ? 0 : value;
    call.output[at + lane] = value;
  }
}

template <std::int64_t kCount>
[[gnu::always_inline]] inline void run_rows(const SmallLinear& call, std::int64_t row) {
  for (std::int64_t column = 0; column < call.columns_out; column += kPanel) {
    const float* panel = call.packed + column * call.columns_in;
    Vector sums[kCount] = {};
    for (std::int64_t k = 0; k < call.columns_in; ++k) {
      const Vector weights = *reinterpret_cast<const Vector*>(panel + k * kPanel);
      for (std::int64_t i = 0; i < kCount; ++i) sums[i] += weights * call.input[(row + i) * call.columns_in + k];
    }
    for (std::int64_t i = 0; i < kCount; ++i) finish_row(call, sums[i], row + i, column);
  }
}

[[gnu::always_inline]] inline void run_all(const SmallLinear& call) {
  std::int64_t row = 0;
  for (; row + kRows <= call.rows; row += kRows) run_rows<kRows>(call, row);
  for (; row < call.rows; ++row) run_rows<1>(call, row);
}

#if defined(__x86_64__)
[[gnu::target("avx512f,avx512vl,fma,prefer-vector-width=512")]] void run_avx512(const SmallLinear& call) {
  run_all(call);
}
[[gnu::target("avx2,fma")]] void run_avx2(const SmallLinear& call) {
  run_all(call);
}
#endif
void run_plain(const SmallLinear& call) {
  run_all(call);
}

using Kernel = void (*)(const SmallLinear&);

Kernel choose_kernel() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) return run_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return run_avx2;
#endif
  return run_plain;
}

}  // namespace

at::Tensor pack_small_weight(const at::Tensor& weight) {
  const std::int64_t panels = (weight.size(0) + kPanel - 1) / kPanel;
  at::Tensor padded = at::zeros({panels * kPanel, weight.size(1)}, weight.options());
  padded.narrow(0, 0, weight.size(0)).copy_(weight);
  return padded.view({panels, kPanel, weight.size(1)}).transpose(1, 2).contiguous();
}

void run_small_linear(const SmallLinear& call) {
  static const Kernel kernel = choose_kernel();
  kernel(call);
}

}  // namespace dynrun::lowering
