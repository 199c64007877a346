// What lies before the first tensor that requires grad is compiled by itself.

#include "graph_builder.h"

using namespace dynrun;
using namespace dynrun::test;

namespace {

void record_gradients(const GraphBuilder& b) {
  for (graph::Node& node : b.graph()->nodes) node.mode.grad_enabled = true;
}

void mark(const GraphBuilder& b, ValueId id) { std::get<graph::TensorType>(b.graph()->values[static_cast<std::size_t>(id)].type).requires_grad = true; }

}  // namespace

TEST_CASE("nodes before the first gradient become kernels, the others keep their gradients", "[gradients]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4, 6})), w = b.input(at::randn({6, 3}).requires_grad_());
  ValueId y = b.one("aten::mul.Scalar", {ref(x), val(2)});
  ValueId z = b.one("aten::relu", {ref(y)});
  ValueId t = b.one("aten::tanh", {ref(z)});
  ValueId product = b.one("aten::mm", {ref(t), ref(w)});
  ValueId sum = b.one("aten::sum", {ref(product), val({})});
  b.output(sum), b.output(z);
  record_gradients(b);
  mark(b, w), mark(b, product), mark(b, sum);
  at::AutoGradMode grad(true);
  lowering::Lowered lowered = lowering::lower(b.graph(), b.inputs(), {});
  CHECK(lowered.executable->kernel_count() == 1);
  std::vector<at::Tensor> got = lowered.executable->run(b.inputs()), expected = runtime::make_replayer(b.graph())->run(b.inputs());
  CHECK(got[0].requires_grad());
  CHECK_FALSE(got[1].requires_grad());
  CHECK(at::allclose(got[0], expected[0]));
  CHECK(at::equal(got[1], expected[1]));
}

TEST_CASE("a write in place before the first gradient leaves the graph whole", "[gradients]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4, 6})), w = b.input(at::randn({6, 3}).requires_grad_());
  ValueId y = b.one("aten::mul.Scalar", {ref(x), val(2)});
  b.one("aten::relu_", {ref(y)});
  ValueId t = b.one("aten::tanh", {ref(y)});
  ValueId product = b.one("aten::mm", {ref(t), ref(w)});
  b.output(product);
  record_gradients(b);
  mark(b, w), mark(b, product);
  CHECK(lowering::lower(b.graph(), b.inputs(), {}).executable->kernel_count() == 0);
}
