// runtime::try_out against what operators give on the CPU, at other sizes than the recorded ones.

#include "runtime/dispatch.h"
#include "runtime/trial.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <catch2/catch.hpp>

namespace {

using dynrun::graph::Graph;
using dynrun::graph::ValueId;

/// Indices in range, pivots, and matrices that are definite where they are square.
at::Tensor make_input(c10::ScalarType dtype, const std::vector<std::int64_t>& sizes) {
  if (!c10::isFloatingType(dtype)) return at::ones(sizes, dtype);
  at::Tensor made = at::rand(sizes, dtype);
  const bool square = sizes.size() == 2 && sizes[0] == sizes[1];
  return square ? made.matmul(made.t()) + at::eye(sizes[0], at::TensorOptions().dtype(dtype)) : made;
}

Graph parse(const char* inputs, const char* node) { return dynrun::graph::parse(std::string("graph\n") + inputs + "\n" + node + "\nreturn %y\n"); }

/// The graph's one node on a trial, its inputs without memory in these sizes.
bool try_node(const Graph& graph, const std::vector<at::Tensor>& inputs, torch::jit::Stack& stack) {
  std::vector<c10::IValue> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); i++)
    values[static_cast<std::size_t>(graph.inputs[i].value)] = at::empty_strided(inputs[i].sizes(), inputs[i].strides(), inputs[i].options().device(at::kMeta));
  return dynrun::runtime::try_out(graph.nodes[0], graph, [&](ValueId id) -> const c10::IValue& { return values[static_cast<std::size_t>(id)]; }, stack);
}

torch::jit::Stack run_node(const Graph& graph, const std::vector<at::Tensor>& inputs) {
  std::vector<c10::IValue> values(graph.values.size());
  for (std::size_t i = 0; i < inputs.size(); i++) values[static_cast<std::size_t>(graph.inputs[i].value)] = inputs[i];
  torch::jit::Stack stack;
  dynrun::runtime::push_arguments(graph.nodes[0], [&](ValueId id) -> const c10::IValue& { return values[static_cast<std::size_t>(id)]; }, stack);
  graph.nodes[0].op.callBoxed(stack);
  return stack;
}

}  // namespace

TEST_CASE("a trial gives the sizes that the operator gives") {
  struct Tried {
    const char *inputs, *node;
    std::vector<std::vector<std::int64_t>> sizes;  // of the inputs, now
  };
  const Tried cases[] = {
      {"input %x: float32[3, 3]", "%y: float32[3, 3] = aten::linalg_inv(%x)", {{7, 7}}},
      {"input %x: float32[3, 3]", "%y: float32[3, 3] = aten::linalg_cholesky(%x, false)", {{7, 7}}},
      {"input %x: float32[3, 3]\ninput %b: float32[3, 2]", "%y: float32[3, 2] = aten::linalg_solve(%x, %b, true)", {{7, 7}, {7, 5}}},
      {"input %x: float32[3, 2]", "%y: float32[3, 2], %s: float32[2], %v: float32[2, 2] = aten::linalg_svd(%x, false, None)", {{9, 4}}},
      {"input %x: float32[3, 2]", "%y: float32[3, 2], %r: float32[2, 2] = aten::linalg_qr(%x, \"reduced\")", {{9, 4}}},
      {"input %x: float32[3, 3]\ninput %p: int32[3]\ninput %b: float32[3, 2]", "%y: float32[3, 2] = aten::linalg_lu_solve(%x, %p, %b, true, false)", {{6, 6}, {6}, {6, 4}}},
      {"input %x: float32[4, 6]", "%y: complex64[4, 4] = aten::fft_rfft(%x, None, -1, None)", {{5, 10}}},
      {"input %x: float32[1, 2, 6, 6]", "%y: float32[1, 18, 16] = aten::im2col(%x, int[3, 3], int[1, 1], int[0, 0], int[1, 1])", {{3, 2, 9, 8}}},
      {"input %x: float32[3, 4]\ninput %z: float32[2, 4]", "%y: float32[3, 2] = aten::cdist(%x, %z, 2.0, None)", {{6, 5}, {7, 5}}},
      {"input %x: float32[3, 4]", "%y: float32[3], %i: int64[3] = aten::kthvalue(%x, 1, -1, false)", {{6, 5}}},
      {"input %x: float32[1, 2, 4, 4]\ninput %g: float32[1, 3, 3, 2]", "%y: float32[1, 2, 3, 3] = aten::grid_sampler(%x, %g, 0, 0, false)", {{2, 2, 6, 5}, {2, 7, 8, 2}}},
      {"input %x: float32[4]", "%y: float32[4, 4] = aten::diag_embed(%x, 0, -2, -1)", {{9}}},
      {"input %x: float32[4]\ninput %z: float32[5]", "%y: float32[20] = aten::kron(%x, %z)", {{6}, {7}}},
      {"input %w: float32[9, 4]\ninput %i: int64[6]\ninput %o: int64[2]",
       "%y: float32[2, 4], %a: int64[6], %b: int64[2], %c: int64[2] = aten::_embedding_bag(%w, %i, %o, false, 1, false, None, false, -1)", {{9, 5}, {11}, {3}}},
  };
  for (const Tried& one : cases) {
    INFO(one.node);
    const Graph graph = parse(one.inputs, one.node);
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < one.sizes.size(); i++) inputs.push_back(make_input(graph.type_of(graph.inputs[i].value).dtype, one.sizes[i]));
    if (std::string_view(one.node).find("embedding_bag") != std::string_view::npos) inputs[2].zero_();
    torch::jit::Stack tried;
    REQUIRE(try_node(graph, inputs, tried));
    const torch::jit::Stack given = run_node(graph, inputs);
    REQUIRE(tried.size() == given.size());
    for (std::size_t i = 0; i < given.size(); i++) {
      CHECK(tried[i].toTensor().is_meta());
      CHECK(tried[i].toTensor().sizes() == given[i].toTensor().sizes());
      CHECK(tried[i].toTensor().strides() == given[i].toTensor().strides());
      CHECK(tried[i].toTensor().scalar_type() == given[i].toTensor().scalar_type());
    }
  }
}

TEST_CASE("a trial gives the argument that the operator writes") {
  const Graph graph = parse("input %x: float32[2, 3]\ninput %y: float32[2, 3]", "%y = aten::sin.out(%x, %y)");
  torch::jit::Stack stack;
  REQUIRE(try_node(graph, {at::ones({5, 4}), at::ones({5, 4})}, stack));
  CHECK(stack[0].toTensor().sizes() == c10::IntArrayRef({5, 4}));
  CHECK_FALSE(try_node(graph, {at::ones({5, 4}), at::ones({0})}, stack));  // it would be resized
}

TEST_CASE("a trial does not tell what data decides") {
  torch::jit::Stack stack;
  CHECK_FALSE(try_node(parse("input %x: float32[4]", "%y: int64[4, 1] = aten::nonzero(%x)"), {at::ones({6})}, stack));
  CHECK_FALSE(try_node(parse("input %x: float32[4, 2]\ninput %l: int64[2]", "%y: float32[4], %b: int64[3] = aten::_pack_padded_sequence(%x, %l, false)"),
                       {at::ones({6, 3}), at::ones({3}, at::kLong)}, stack));
  CHECK(stack.empty());
  CHECK_FALSE(try_node(parse("input %x: float32[2, 3]\ninput %z: float32[3, 4]", "%y: float32[2, 4] = aten::matmul(%x, %z)"), {at::ones({2, 5}), at::ones({3, 4})}, stack));
}

TEST_CASE("a trial leaves the random stream as it is") {
  const at::Tensor before = at::detail::getDefaultCPUGenerator().get_state();
  torch::jit::Stack stack;
  REQUIRE(try_node(parse("input %x: float32[2, 3]", "%y: float32[2, 3] = aten::bernoulli(%x, None)"), {at::ones({5, 4})}, stack));
  CHECK(at::equal(before, at::detail::getDefaultCPUGenerator().get_state()));
}
