// What is lowered in another way for a GPU (poolings and convolutions of single channels as kernels, patches as products, channels-last
// activations, biases behind convolutions), run by the CPU's kernels against libtorch.

#include "graph_builder.h"

#ifdef DYNRUN_CUDA
#include "lowering/gpu/rows_apart.h"
#endif

#include <cmath>

using namespace dynrun;
using namespace dynrun::test;
using lowering::GpuTrial;

namespace {

struct Convolution {
  std::vector<std::int64_t> input, weight, stride, padding, dilation;
  std::int64_t groups;
  bool fused;  // nothing is left for a library
};

const std::vector<Convolution>& convolutions() {
  static const std::vector<Convolution> list = {
      {{2, 8, 11, 9}, {8, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 8, true},   {{2, 8, 11, 9}, {8, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 8, true},
      {{1, 6, 12, 10}, {6, 1, 5, 5}, {2, 1}, {2, 2}, {1, 1}, 6, true},  {{2, 8, 11, 9}, {8, 1, 3, 2}, {1, 1}, {0, 3}, {2, 2}, 8, true},
      {{1, 4, 5, 5}, {4, 1, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 4, true},    {{2, 8, 11, 9}, {16, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 8, false},
      {{1, 4, 13, 13}, {4, 1, 7, 7}, {1, 1}, {3, 3}, {1, 1}, 4, false}, {{2, 8, 11, 9}, {8, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, false},
      {{2, 3, 8, 12}, {5, 3, 4, 4}, {4, 4}, {0, 0}, {1, 1}, 1, false},  {{2, 3, 8, 12}, {5, 3, 2, 3}, {2, 3}, {0, 0}, {1, 1}, 1, false},
      {{2, 3, 9, 12}, {5, 3, 4, 4}, {4, 4}, {0, 0}, {1, 1}, 1, false},  {{1, 4, 8, 8}, {6, 4, 2, 2}, {2, 2}, {0, 0}, {1, 1}, 1, false},
  };
  return list;
}

/// relu6(convolution of (x + 1)), and its values in another order: what the convolution gives has a reader, and a view.
Checked run(const Convolution& one, c10::ScalarType dtype, at::MemoryFormat format, bool bias, GpuTrial trial) {
  GraphBuilder b;
  ValueId x = b.input(at::randn(one.input).to(dtype).contiguous(format));
  ValueId weight = b.input((at::randn(one.weight) * 0.2).to(dtype), true);
  std::vector<Argument> arguments = {ref(b.one("aten::add.Scalar", {ref(x), val(1)})), ref(weight), val({}), ints(one.stride), ints(one.padding), ints(one.dilation), val(one.groups)};
  if (bias) arguments[2] = ref(b.input(at::randn({one.weight[0]}).to(dtype), true));
  ValueId y = b.one("aten::relu6", {ref(b.one("aten::conv2d", arguments))});
  b.output(b.one("aten::mul.Scalar", {ref(y), val(2)}));
  b.output(b.one("aten::flatten.using_ints", {ref(b.one("aten::conv2d", arguments)), val(2)}));
  const bool half = dtype == at::kHalf || dtype == at::kBFloat16;
  return check(b, half ? 8 : 200, true, nullptr, trial);  // sums in another order
}

}  // namespace

TEST_CASE("convolutions as for a GPU", "[gpu_rules]") {
  at::manual_seed(3);
  for (const Convolution& one : convolutions()) {
    for (c10::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16}) {
      for (at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        for (GpuTrial trial : {GpuTrial::kContiguous, GpuTrial::kChannelsLast, GpuTrial::kBehindFirst}) {
          for (bool bias : {false, true}) {
            // A GPU's libtorch rounds to the half type before it adds the bias, the CPU's after.
            if (bias && dtype == at::kBFloat16) continue;
            const Checked checked = run(one, dtype, format, bias, trial);
            INFO(c10::IntArrayRef(one.input) << " " << c10::IntArrayRef(one.weight) << " " << dtype << " " << format << " " << static_cast<int>(trial) << " " << bias);
            CHECK(checked.problem == "");
            if (one.fused && dtype != at::kBFloat16) CHECK(checked.externs == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("layouts behind a first convolution of few channels", "[gpu_rules]") {
  at::manual_seed(5);
  for (GpuTrial trial : {GpuTrial::kContiguous, GpuTrial::kChannelsLast, GpuTrial::kBehindFirst}) {
    for (at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      GraphBuilder b;
      auto convolve = [&](ValueId x, std::int64_t from, std::int64_t to) {
        ValueId weight = b.input(at::randn({to, from, 3, 3}) * 0.1, true), bias = b.input(at::randn({to}), true);
        return b.one("aten::conv2d", {ref(x), ref(weight), ref(bias), ints({1, 1}), ints({1, 1}), ints({1, 1}), val(1)});
      };
      ValueId first = b.one("aten::relu", {ref(convolve(b.input(at::randn({2, 3, 10, 9}).contiguous(format)), 3, 8))});
      ValueId pooled = b.one("aten::max_pool2d", {ref(first), ints({2, 2}), ints({2, 2}), ints({0, 0}), ints({1, 1}), val(false)});
      ValueId second = b.one("aten::relu", {ref(convolve(pooled, 8, 16))});
      b.output(b.one("aten::add.Tensor", {ref(convolve(second, 16, 16)), ref(second), val(1)}));
      b.output(b.one("aten::flatten.using_ints", {ref(first), val(1)}));
      INFO(format << " " << static_cast<int>(trial));
      CHECK(check(b, 400, true, nullptr, trial).problem == "");
    }
  }
}

TEST_CASE("convolutions along one dimension as for a GPU", "[gpu_rules]") {
  at::manual_seed(4);
  for (std::int64_t window : {1, 3, 4}) {
    for (std::int64_t stride : {1, 2}) {
      GraphBuilder b;
      ValueId x = b.input(at::randn({2, 6, 19}));
      ValueId weight = b.input(at::randn({6, 1, window}), true), bias = b.input(at::randn({6}), true);
      b.output(b.one("aten::relu", {ref(b.one("aten::conv1d", {ref(x), ref(weight), ref(bias), ints({stride}), ints({window - 1}), ints({1}), val(6)}))}));
      const Checked checked = check(b, 100, true, nullptr, GpuTrial::kContiguous);
      CHECK(checked.problem == "");
      CHECK(checked.externs == 0);
    }
  }
}

TEST_CASE("poolings as for a GPU", "[gpu_rules]") {
  at::manual_seed(5);
  for (at::MemoryFormat format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
    for (std::int64_t window : {2, 3}) {
      for (std::int64_t stride : {1, 2, 3}) {
        for (bool hanging : {false, true}) {
          GraphBuilder b;
          ValueId x = b.input(at::randn({2, 5, 11, 13}).contiguous(format));
          ValueId y = b.one("aten::mul.Scalar", {ref(x), val(2)});
          b.output(b.one("aten::max_pool2d", {ref(y), ints({window, window}), ints({stride, stride}), ints({1, 1}), ints({1, 1}), val(hanging)}));
          b.output(b.one("aten::avg_pool2d", {ref(y), ints({window, window}), ints({stride, stride}), ints({1, 1}), val(hanging), val(false)}));
          b.output(b.one("aten::adaptive_avg_pool2d", {ref(y), ints({1, 1})}));
          const Checked checked = check(b, 20, true, nullptr, GpuTrial::kContiguous);
          INFO(format << " " << window << " " << stride << " " << hanging);
          CHECK(checked.problem == "");
          CHECK(checked.externs == 0);
        }
      }
    }
  }
}

#ifdef DYNRUN_CUDA
TEST_CASE("products of oddly many features, rows apart", "[gpu_rules]") {
  at::manual_seed(5);
  for (c10::ScalarType dtype : {at::kHalf, at::kBFloat16}) {
    for (std::int64_t features : {17, 1025, 1026, 1028, 1031, 2047}) {
      for (std::int64_t rows : {1, 3, 8, 29}) {
        const at::Tensor input = at::randn({rows, 16}).to(dtype), weight = at::randn({features, 16}).to(dtype);
        at::Tensor result = at::full({rows, features}, std::nan(""), at::dtype(dtype));
        lowering::gpu::multiply_rows_apart(result, input, weight);
        INFO(dtype << " " << rows << " x " << features);
        CHECK(at::allclose(result.to(at::kFloat), at::mm(input, weight.t()).to(at::kFloat), 0.02, 0.02));
      }
    }
  }
}
#endif
