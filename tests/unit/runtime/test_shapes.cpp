// graph::infer against what the operators give on the CPU, at other sizes than the recorded ones.

#include "graph/shapes.h"
#include "runtime/dispatch.h"

#include <ATen/ATen.h>
#include <catch2/catch.hpp>

namespace {

using dynrun::graph::Graph;
using dynrun::graph::ValueId;

/// Contiguous, or where the recorded input was not, with its dimensions the other way round in memory.
at::Tensor make_input(const dynrun::graph::TensorType& type, std::vector<std::int64_t> sizes) {
  const at::TensorOptions options = at::TensorOptions().dtype(type.dtype);
  if (type.is_contiguous()) return at::ones(sizes, options);
  std::vector<std::int64_t> order(sizes.size());
  for (std::size_t i = 0; i < order.size(); i++) order[i] = static_cast<std::int64_t>(order.size() - 1 - i);
  return at::ones(std::vector<std::int64_t>(sizes.rbegin(), sizes.rend()), options).permute(order);
}

/// The one node's results on these inputs, by its kernel or by its shape function.
std::vector<c10::IValue> results(const Graph& graph, const std::vector<at::Tensor>& inputs, bool infer) {
  std::vector<c10::IValue> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); i++) {
    const at::Tensor& one = inputs[i];
    values[static_cast<std::size_t>(graph.inputs[i].value)] = infer ? at::empty_strided(one.sizes(), one.strides(), one.options().device(at::kMeta)) : one;
  }
  torch::jit::Stack stack;
  dynrun::runtime::push_arguments(graph.nodes[0], [&](ValueId id) -> const c10::IValue& { return values[static_cast<std::size_t>(id)]; }, stack);
  if (!infer) graph.nodes[0].op.callBoxed(stack);
  else REQUIRE(dynrun::graph::infer(graph.nodes[0], graph, stack));
  return {stack.begin(), stack.end()};
}

struct Shaped {
  const char* inputs;  // lines of the graph's text
  const char* node;
  std::vector<std::vector<std::int64_t>> sizes;  // of the inputs, now
};

}  // namespace

TEST_CASE("shape functions say what operators give") {
  const Shaped cases[] = {
      {"input %x: float32[2, 3]", "%y: float32[2, 3] = aten::relu(%x)", {{4, 7}}},
      {"input %x: float32[2, 3]{1, 2}", "%y: float32[2, 3]{1, 2} = aten::exp(%x)", {{4, 7}}},
      {"input %x: float32[2, 3]\ninput %z: float32[3]", "%y: float32[2, 3] = aten::add.Tensor(%x, %z, 1)", {{4, 7}, {7}}},
      {"input %x: float32[2, 3]{1, 2}\ninput %z: float32[2, 3]", "%y: float32[2, 3]{1, 2} = aten::mul.Tensor(%x, %z)", {{4, 7}, {4, 7}}},
      {"input %x: float32[2, 3, 4]{1, 2, 6}\ninput %z: float32[3, 1]", "%y: float32[2, 3, 4]{1, 2, 6} = aten::sub.Tensor(%x, %z, 1)", {{5, 6, 7}, {6, 1}}},
      {"input %x: float32[2, 1, 4]\ninput %z: float32[3, 1]{1, 3}", "%y: float32[2, 3, 4] = aten::div.Tensor(%x, %z)", {{5, 1, 7}, {6, 1}}},
      {"input %x: float32[2, 3]", "%y: bool[2, 3] = aten::gt.Scalar(%x, 1.0)", {{4, 7}}},
      {"input %x: float32[2, 3]\ninput %z: float32[3, 4]", "%y: float32[2, 4] = aten::matmul(%x, %z)", {{5, 7}, {7, 6}}},
      {"input %x: float32[2, 2, 3]\ninput %z: float32[3, 4]", "%y: float32[2, 2, 4] = aten::matmul(%x, %z)", {{4, 5, 7}, {7, 6}}},
      {"input %x: float32[2, 1, 2, 3]\ninput %z: float32[5, 3, 4]", "%y: float32[2, 5, 2, 4] = aten::matmul(%x, %z)", {{4, 1, 5, 7}, {3, 7, 6}}},
      {"input %x: float32[2, 3, 8]\ninput %w: float32[4, 8]\ninput %b: float32[4]", "%y: float32[2, 3, 4] = aten::linear(%x, %w, %b)", {{5, 6, 8}, {4, 8}, {4}}},
      {"input %b: float32[4]\ninput %x: float32[2, 3]\ninput %z: float32[3, 4]", "%y: float32[2, 4] = aten::addmm(%b, %x, %z, 1, 1)", {{6}, {5, 7}, {7, 6}}},
      {"input %x: float32[1, 3, 8, 8]\ninput %w: float32[4, 3, 3, 3]", "%y: float32[1, 4, 4, 4] = aten::conv2d(%x, %w, None, int[2, 2], int[1, 1], int[1, 1], 1)", {{2, 3, 11, 9}, {4, 3, 3, 3}}},
      {"input %x: float32[1, 3, 8, 8]", "%y: float32[1, 3, 4, 4] = aten::max_pool2d(%x, int[3, 3], int[2, 2], int[1, 1], int[1, 1], true)", {{2, 3, 11, 10}}},
      {"input %x: float32[1, 3, 8, 8]", "%y: float32[1, 3, 4, 4] = aten::avg_pool2d(%x, int[2, 2], int[], int[0, 0], false, true, None)", {{2, 3, 11, 10}}},
      {"input %x: float32[1, 3, 8, 8]", "%y: float32[1, 3, 1, 1] = aten::adaptive_avg_pool2d(%x, int[1, 1])", {{2, 3, 11, 10}}},
      {"input %x: float32[2, 3, 4]", "%y: float32[2, 4] = aten::sum.dim_IntList(%x, int[1], false, None)", {{5, 6, 7}}},
      {"input %x: float32[2, 3, 4]{1, 2, 6}", "%y: float32[2, 3, 1] = aten::mean.dim(%x, int[-1], true, None)", {{5, 6, 7}}},
      {"input %x: float32[2, 3, 4]", "%y: float32[2, 3], %i: int64[2, 3] = aten::max.dim(%x, 2, false)", {{5, 6, 7}}},
      {"input %x: float32[2, 3]", "%y: float32[] = aten::sum(%x, None)", {{5, 6}}},
      {"input %x: float32[2, 3, 4]{1, 2, 6}", "%y: float32[2, 3, 4] = aten::softmax.int(%x, -1, None)", {{5, 6, 7}}},
      {"input %x: float32[2, 3, 4]{1, 2, 6}\ninput %w: float32[4]", "%y: float32[2, 3, 4] = aten::layer_norm(%x, int[4], %w, None, 1e-05, true)", {{5, 6, 4}, {4}}},
      {"input %x: float32[2, 3]\ninput %z: float32[4, 3]", "%y: float32[6, 3] = aten::cat([%x, %z], 0)", {{5, 7}, {6, 7}}},
      {"input %x: float32[2, 3]\ninput %z: float32[2, 3]", "%y: float32[2, 3, 2] = aten::stack([%x, %z], -1)", {{5, 7}, {5, 7}}},
      {"input %w: float32[9, 4]\ninput %i: int64[2, 3]", "%y: float32[2, 3, 4] = aten::embedding(%w, %i, -1, false, false)", {{9, 4}, {5, 6}}},
      {"input %x: float32[2, 3, 4]", "%y: float32[2, 12] = aten::reshape(%x, int[2, -1])", {{2, 6, 7}}},
      {"input %x: float32[2, 3, 4]{1, 2, 6}", "%y: float32[2, 12] = aten::reshape(%x, int[2, -1])", {{2, 6, 7}}},
      {"input %x: float32[2, 3, 4]", "%y: float32[2, 12] = aten::flatten.using_ints(%x, 1, -1)", {{5, 6, 7}}},
      {"input %x: float32[2, 3]{1, 2}", "%y: float32[2, 3]{1, 2} = aten::clone(%x, None)", {{5, 6}}},
      {"input %x: float32[2, 3]{1, 2}", "%y: float32[2, 3] = aten::contiguous(%x, 0)", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float64[2, 3] = aten::to.dtype(%x, 7, false, false, None)", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float32[2, 3] = aten::zeros_like(%x, None, None, None, None, None)", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float32[4, 9] = aten::repeat(%x, int[2, 3])", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float32[2, 6] = aten::constant_pad_nd(%x, int[1, 2], 0)", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float32[2, 2], %i: int64[2, 2] = aten::topk(%x, 2, -1, true, true)", {{5, 6}}},
      {"input %i: int64[2, 3]", "%y: int64[2, 3, 9] = aten::one_hot(%i, 9)", {{5, 6}}},
      {"input %x: float32[2, 3]\ninput %i: int64[2, 1]", "%y: float32[2, 1] = aten::gather(%x, 1, %i, false)", {{5, 6}, {5, 2}}},
      {"input %x: float32[2, 3]\ninput %i: int64[4]", "%y: float32[2, 4] = aten::index_select(%x, 1, %i)", {{5, 6}, {7}}},
      {"input %x: float32[2, 3]", "%y: float32[3, 2]{1, 3} = aten::transpose.int(%x, 0, 1)", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float32[2, 2]{3, 1} = aten::slice.Tensor(%x, 1, 1, 9223372036854775807, 1)", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float32[2, 3] = aten::cumsum(%x, 1, None)", {{5, 6}}},
      {"input %x: bool[2, 3]\ninput %z: bool[3]", "%y: bool[2, 3] = aten::__or__.Tensor(%x, %z)", {{4, 7}, {7}}},
      {"input %x: float32[0]\ninput %z: float32[2, 3]", "%y: float32[2, 3] = aten::cat([%x, %z], 0)", {{0}, {6, 7}}},
      {"input %x: float32[2, 3]\ninput %i: int64[2, 1]", "%y: float32[2, 1] = aten::take_along_dim(%x, %i, 1)", {{5, 6}, {5, 2}}},
      {"input %x: float32[1, 3]\ninput %i: int64[2, 1]", "%y: float32[2, 1] = aten::take_along_dim(%x, %i, -1)", {{1, 6}, {5, 2}}},
      {"input %x: float32[2, 3]", "%y: int64[2, 2] = aten::multinomial(%x, 2, false, None)", {{5, 6}}},
      {"input %x: float32[3]", "%y: int64[2] = aten::multinomial(%x, 2, true, None)", {{6}}},
      {"input %x: int64[2, 3]{1, 2}\ninput %z: int64[4]", "%y: bool[2, 3] = aten::isin.Tensor_Tensor(%x, %z, false, false)", {{5, 6}, {7}}},
      {"input %x: float32[2, 3]\ninput %z: float32[2, 3]", "%y: float32[] = aten::mse_loss(%x, %z, 1)", {{5, 6}, {5, 6}}},
      {"input %x: float32[2, 3]\ninput %i: int64[2]", "%y: float32[] = aten::cross_entropy_loss(%x, %i, None, 1, -100, 0.0)", {{5, 6}, {5}}},
      {"input %x: float32[1, 2, 3, 4]", "%y: float32[1, 2, 6, 8] = aten::upsample_nearest2d.vec(%x, None, float[2.0, 2.0])", {{2, 3, 5, 7}}},
      {"input %x: float32[1, 2, 3, 4]", "%y: float32[1, 2, 4, 6] = aten::upsample_bilinear2d.vec(%x, None, false, float[1.5, 1.5])", {{2, 3, 5, 7}}},
      {"input %x: float32[1, 2, 3, 4]", "%y: float32[1, 2, 5, 5] = aten::upsample_bicubic2d.vec(%x, int[5, 5], false, None)", {{2, 3, 5, 7}}},
      {"input %x: float32[1, 2, 3, 4]\ninput %w: float32[2, 3, 2, 2]", "%y: float32[1, 3, 6, 8] = aten::conv_transpose2d.input(%x, %w, None, int[2, 2], int[0, 0], int[0, 0], 1, int[1, 1])", {{2, 2, 5, 7}, {2, 3, 2, 2}}},
      {"input %x: float32[1, 2, 5, 5]\ninput %w: float32[2, 3, 3, 3]", "%y: float32[1, 6, 8, 8] = aten::conv_transpose2d.input(%x, %w, None, int[2, 2], int[3, 3], int[1, 1], 2, int[2, 2])", {{2, 2, 6, 7}, {2, 3, 3, 3}}},
      {"input %x: float32[2, 3]", "%y: float32[4, 9] = aten::tile(%x, int[2, 3])", {{5, 6}}},
      {"input %x: float32[2, 3]", "%y: float32[2, 9] = aten::tile(%x, int[3])", {{5, 6}}},
      {"input %x: float32[2]\ninput %z: float32[3]", "%y: float32[2, 3] = aten::outer(%x, %z)", {{5}, {6}}},
      {"input %x: float32[2, 3]{1, 2}", "%y: float32[2, 3], %i: int64[2, 3] = aten::cummax(%x, 1)", {{5, 6}}},
      {"input %x: float32[2, 3]{1, 2}", "%y: float32[2, 3]{1, 2} = aten::digamma(%x)", {{5, 6}}},
      {"input %x: float32[2, 3]{1, 2}\ninput %i: int64[1, 1]\ninput %s: float32[1, 1]", "%y: float32[2, 3] = aten::scatter.src(%x, 0, %i, %s)", {{5, 6}, {1, 2}, {1, 2}}},
      {"input %x: float32[2, 3]\ninput %i: int64[1]\ninput %s: float32[1, 3]", "%y: float32[2, 3] = aten::index_add(%x, 0, %i, %s, 1)", {{5, 6}, {1}, {1, 6}}},
      {"input %x: float32[2, 3]\ninput %i: int64[1]\ninput %s: float32[1, 3]", "%y: float32[2, 3] = aten::index_copy(%x, 0, %i, %s)", {{5, 6}, {1}, {1, 6}}},
      {"input %x: float32[2, 3]\ninput %i: int64[1]", "%y: float32[2, 3] = aten::index_fill.int_Scalar(%x, 0, %i, 2)", {{5, 6}, {1}}},
  };
  for (const Shaped& one : cases) {
    INFO(one.node);
    const Graph graph = dynrun::graph::parse(std::string("graph\n") + one.inputs + "\n" + one.node + "\nreturn %y\n");
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < one.sizes.size(); i++) inputs.push_back(make_input(graph.type_of(graph.inputs[i].value), one.sizes[i]));
    const auto wanted = results(graph, inputs, false), got = results(graph, inputs, true);
    REQUIRE(wanted.size() == got.size());
    for (std::size_t i = 0; i < wanted.size(); i++) {
      CHECK(got[i].toTensor().sizes() == wanted[i].toTensor().sizes());
      CHECK(got[i].toTensor().strides() == wanted[i].toTensor().strides());
      CHECK(got[i].toTensor().scalar_type() == wanted[i].toTensor().scalar_type());
    }
  }
}

TEST_CASE("a dimension of one element may have any stride") {
  const at::Tensor x = at::ones({1, 1, 4, 8}).transpose(1, 2);  // contiguous, whatever the stride of the third dimension
  const at::Tensor z = at::ones({1, 4, 1, 1});
  const Shaped cases[] = {
      {"input %x: float32[1, 4, 1, 8]{32, 8, 32, 1}\ninput %z: float32[1, 4, 1, 1]", "%y: float32[1, 4, 1, 8] = aten::mul.Tensor(%x, %x)", {}},
      {"input %x: float32[1, 4, 1, 8]{32, 8, 32, 1}\ninput %z: float32[1, 4, 1, 1]", "%y: float32[1, 4, 1, 8] = aten::mul.Tensor(%x, %z)", {}},
      {"input %x: float32[1, 4, 1, 8]{32, 8, 32, 1}\ninput %z: float32[1, 4, 1, 1]", "%y: float32[1, 4, 1, 8] = aten::mul.Scalar(%x, 2.0)", {}},
      {"input %x: float32[1, 4, 1, 8]{32, 8, 32, 1}\ninput %z: float32[1, 4, 1, 1]", "%y: float32[1, 4, 1, 8] = aten::pow.Tensor_Scalar(%x, 2)", {}},
      {"input %x: float32[1, 4, 1, 8]{32, 8, 32, 1}\ninput %z: float32[1, 4, 1, 1]", "%y: bool[1, 4, 1, 8] = aten::gt.Scalar(%x, 2.0)", {}},
      {"input %x: float32[1, 4, 1, 8]{32, 8, 32, 1}\ninput %z: float32[1, 4, 1, 1]", "%y: float32[1, 4, 1, 8] = aten::neg(%x)", {}},
      {"input %x: float32[1, 4, 1, 8]{32, 8, 32, 1}\ninput %z: float32[1, 4, 1, 1]", "%y: float32[1, 4, 1, 8] = aten::clamp(%x, 0, 1)", {}},
  };
  for (const Shaped& one : cases) {
    INFO(one.node);
    const Graph graph = dynrun::graph::parse(std::string("graph\n") + one.inputs + "\n" + one.node + "\nreturn %y\n");
    CHECK(results(graph, {x, z}, true)[0].toTensor().strides() == results(graph, {x, z}, false)[0].toTensor().strides());
  }
}
