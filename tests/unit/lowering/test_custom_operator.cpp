// Operators from outside libtorch: called as they are, in order, with arguments that they may keep.

#include <torch/library.h>

#include "graph_builder.h"

using namespace dynrun;
using namespace dynrun::test;

namespace {

std::vector<at::Tensor>& kept() {
  static std::vector<at::Tensor> tensors;
  return tensors;
}

at::Tensor keep(const at::Tensor& x) {
  kept().push_back(x);
  return x + 1;
}

at::Tensor same(const at::Tensor& x) {
  return x;
}

TORCH_LIBRARY(dynrun_test, m) {
  m.def("keep(Tensor x) -> Tensor", keep);
  m.def("same(Tensor x) -> Tensor", same);
}

}  // namespace

TEST_CASE("an operator may keep its argument", "[custom]") {
  GraphBuilder b;
  ValueId x = b.input(at::full({100}, 2.0));
  ValueId y = b.one("dynrun_test::keep", {ref(b.one("aten::exp", {ref(x)}))});
  for (int i = 0; i < 6; ++i) y = b.one("aten::cumsum", {ref(b.one("aten::mul.Scalar", {ref(y), val(0.5)})), val(0)});
  b.output(y);
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  kept().clear();
  lowered.executable->run(b.inputs());
  lowered.executable->run({at::zeros({100})});
  REQUIRE(kept().size() == 2);
  CHECK(at::allclose(kept()[0], at::full({100}, std::exp(2.0))));
  CHECK(at::allclose(kept()[1], at::ones({100})));
  kept().clear();
  CHECK(check(b).problem == "");
}

TEST_CASE("an operator that hides that it returns its argument", "[custom]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({100}));
  ValueId y = b.one("aten::exp", {ref(x)});
  ValueId z = b.one("dynrun_test::same", {ref(b.one("aten::neg", {ref(y)}))});
  b.output(b.one("aten::cumsum", {ref(z), val(0)}));
  CHECK(check(b).problem == "");
}
