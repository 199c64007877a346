// In-place operators, views, aliasing of outputs and inputs, effects.

#include "graph_builder.h"

#include "graph/text.h"
#include "lowering/passes/passes.h"

using namespace dynrun;
using namespace dynrun::test;

namespace {

std::string functional_text(const GraphBuilder& b) {
  lowering::Options options;
  return graph::print(lowering::functionalise(*b.graph(), b.inputs(), options).graph);
}

}  // namespace

TEST_CASE("in-place operators on a tensor made in the graph become functional", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4, 6}));
  ValueId y = b.one("aten::add.Scalar", {ref(x), val(1)});
  ValueId view = b.one("aten::view", {ref(y), ints({24})});
  b.one("aten::relu_", {ref(y)});
  b.one("aten::mul_.Scalar", {ref(y), val(2)});
  b.output(b.one("aten::exp", {ref(view)}));
  b.output(y);
  CHECK(functional_text(b).find("relu_") == std::string::npos);
  Checked checked = check(b);
  CHECK(checked.problem == "");
  CHECK(checked.externs == 0);
}

TEST_CASE("writes through part of a tensor and to inputs stay in order", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4, 6}));
  ValueId before = b.one("aten::mul.Scalar", {ref(x), val(3)});
  ValueId y = b.one("aten::add.Scalar", {ref(x), val(1)});
  ValueId row = b.one("aten::select.int", {ref(y), val(0), val(1)});
  b.one("aten::fill_.Scalar", {ref(row), val(7)});
  b.one("aten::mul_.Scalar", {ref(x), val(2)});
  ValueId after = b.one("aten::add.Tensor", {ref(x), ref(y)});
  for (ValueId id : {before, y, row, after, x}) b.output(id);
  CHECK(check(b).problem == "");
}

TEST_CASE("an operator with an out argument writes what the tensor is by then", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4, 6}));
  ValueId y = b.one("aten::mul.Scalar", {ref(x), val(3)});
  b.one("aten::relu_", {ref(y)});
  b.call("aten::add.out", {ref(x), ref(x), val(1), ref(y)});
  b.output(b.one("aten::exp", {ref(y)}));
  b.output(y);
  CHECK(check(b).problem == "");
}

TEST_CASE("a result whose size depends on data has the size of its own run, beside compiled kernels", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::ones({4, 6}));
  ValueId y = b.one("aten::relu", {ref(b.one("aten::add.Scalar", {ref(x), val(1)}))});
  ValueId found = b.one("aten::masked_select", {ref(y), ref(b.one("aten::gt.Scalar", {ref(y), val(1)}))});
  std::get<graph::TensorType>(b.graph()->values[static_cast<std::size_t>(found)].type).unsized = true;
  ValueId after = b.one("aten::mul.Scalar", {ref(y), val(2)});
  for (ValueId id : {found, after}) b.output(id);
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  for (int i = 0; i < 3; ++i) {
    at::Tensor input = at::randn({4, 6});
    at::Tensor right = at::relu(input + 1);
    auto results = lowered.executable->run({input});
    CHECK(at::equal(results[0], right.masked_select(right > 1)));
    CHECK(at::allclose(results[1], right * 2));
  }
  CHECK(lowered.executable->extern_count() == 1);
}

TEST_CASE("outputs that are views keep their storage", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4, 6}));
  ValueId y = b.one("aten::relu", {ref(x)});
  b.output(b.one("aten::t", {ref(y)}));
  b.output(y);
  b.output(b.one("aten::slice.Tensor", {ref(x), val(0), val(1), val(3)}));
  b.output(b.one("aten::select.int", {ref(b.one("aten::exp", {ref(x)})), val(0), val(2)}));
  b.output(x);
  for (ValueId id : b.call("aten::chunk", {ref(y), val(2), val(1)})) b.output(id);
  b.output(b.one("aten::dropout", {ref(y), val(0.5), val(false)}));
  b.output(b.one("aten::contiguous", {ref(x)}));
  CHECK(check(b).problem == "");
}

TEST_CASE("overlapping inputs that are written are replayed", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::zeros({4})), y = b.input(at::zeros({4}));
  b.one("aten::add_.Scalar", {ref(x), val(1)});
  b.output(b.one("aten::add.Tensor", {ref(x), ref(y)}));
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  at::Tensor shared = at::zeros({4});
  CHECK(at::equal(lowered.executable->run({shared, shared})[0], at::full({4}, 2.0)));
  CHECK(at::equal(lowered.executable->run({at::zeros({4}), at::zeros({4})})[0], at::full({4}, 1.0)));
}

TEST_CASE("in-place arithmetic keeps the tensor's own dtype", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.one("aten::add.Scalar", {ref(b.input(at::randn({10}))), val(0)});
  ValueId d = b.input(at::randn({10}, at::kDouble));
  b.one("aten::add_.Tensor", {ref(x), ref(d)});
  b.one("aten::copy_", {ref(x), ref(b.one("aten::mul.Tensor", {ref(d), ref(x)}))});
  b.output(x);
  CHECK(check(b).problem == "");
}

TEST_CASE("random operators draw what eager draws, in order", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::ones({1000}));
  ValueId a = b.one("aten::dropout", {ref(x), val(0.5), val(true)});
  b.one("aten::rand_like", {ref(x)});  // dead, but it moves the generator on
  ValueId c = b.one("aten::bernoulli", {ref(b.one("aten::mul.Scalar", {ref(x), val(0.5)}))});
  b.output(a);
  b.output(c);
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  auto replayer = runtime::make_replayer(b.graph());
  at::manual_seed(3);
  auto expected = replayer->run(b.inputs());
  at::manual_seed(3);
  auto got = lowered.executable->run(b.inputs());
  CHECK(at::equal(expected[0], got[0]));
  CHECK(at::equal(expected[1], got[1]));
}

TEST_CASE("parameters fold, and are named", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4})), w = b.input(at::randn({4}), true), unused = b.input(at::randn({4}), true);
  (void)unused;
  b.output(b.one("aten::mul.Tensor", {ref(x), ref(b.one("aten::exp", {ref(w)}))}));
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  CHECK(lowered.folded_inputs == std::vector<int>{1});
  options.fold_parameters = false;
  CHECK(lowering::lower(b.graph(), b.inputs(), options).folded_inputs.empty());
  CHECK(check(b).problem == "");
}

TEST_CASE("an error of an operator reaches the caller and the executable stays usable", "[functionalise]") {
  GraphBuilder b;
  ValueId table = b.input(at::randn({5, 3})), index = b.input(at::tensor({1, 2}, at::kLong));
  b.output(b.one("aten::relu", {ref(b.one("aten::embedding", {ref(table), ref(index)}))}));
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  CHECK_THROWS_AS(lowered.executable->run({b.inputs()[0], at::tensor({1, 9}, at::kLong)}), c10::Error);
  CHECK(at::equal(lowered.executable->run(b.inputs())[0], at::embedding(b.inputs()[0], b.inputs()[1]).relu()));
}

TEST_CASE("a negated input is replayed, not read as plain memory", "[functionalise]") {
  GraphBuilder b;
  at::Tensor negated = at::_neg_view(at::ones({8}));
  ValueId x = b.input(at::ones({8}));
  b.output(b.one("aten::exp", {ref(x)}));
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), {negated}, options);
  CHECK(at::allclose(lowered.executable->run({negated})[0], at::exp(at::full({8}, -1.0))));
}

TEST_CASE("inference mode gives inference tensors", "[functionalise]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4}));
  b.output(b.one("aten::exp", {ref(x)}));
  for (auto& node : b.graph()->nodes) node.mode.inference = true;
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  CHECK(lowered.executable->run(b.inputs())[0].is_inference());
  CHECK_FALSE(c10::InferenceMode::is_enabled());
}

TEST_CASE("the program after each pass verifies, and the stages are dumped in order", "[passes]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({2, 6})), w = b.input(at::randn({6}), true);
  b.one("aten::exp", {ref(x)});  // dead
  ValueId y = b.one("aten::mul.Tensor", {ref(b.one("aten::t", {ref(x)})),
                                         ref(b.one("aten::unsqueeze", {ref(b.one("aten::abs", {ref(w)})), val(1)}))});
  b.one("aten::relu_", {ref(y)});
  b.output(y);
  lowering::Options options;
  std::vector<std::string> stages;
  std::string first, last;
  options.dump = [&](const std::string& stage, const std::string& text) {
    stages.push_back(stage);
    if (stage == "graph after functionalise") first = text;
    if (stage == "graph after fold_constants") last = text;
  };
  lowering::lower(b.graph(), b.inputs(), options);
  CHECK(stages == std::vector<std::string>{"graph after functionalise", "graph after remove_dead_nodes",
                                           "graph after fold_constants", "graph after fold_batch_norm", "graph after patches_as_product",
                                           "graph after split_convolution_bias", "graph after choose_layouts", "graph after remove_dead_nodes", "loops", "llvm",
                                           "asm", "graph schedule"});
  CHECK(first == R"(view %v3: float32[6, 2]{1, 6} = %in0 + 0
view %v5: float32[6, 1] = %v4 + 0
graph
input %in0: float32[2, 6]
parameter %in1: float32[6]
%v2: float32[2, 6] = aten::exp(%in0)
%v4: float32[6] = aten::abs(%in1)
%v6: float32[6, 2]{1, 6} = aten::mul.Tensor(%v3, %v5)
%v6.7: float32[6, 2]{1, 6} = aten::relu(%v6)
return %v6.7
)");
  CHECK(last == R"(constant %v4: float32[6]
view %v3: float32[6, 2]{1, 6} = %in0 + 0
view %v5: float32[6, 1] = %v4 + 0
graph
input %in0: float32[2, 6]
parameter %in1: float32[6]
%v6: float32[6, 2]{1, 6} = aten::mul.Tensor(%v3, %v5)
%v6.7: float32[6, 2]{1, 6} = aten::relu(%v6)
return %v6.7
)");
  lowering::Program program = lowering::functionalise(*b.graph(), b.inputs(), options);
  CHECK_FALSE(lowering::verify(program));
  program.views.begin()->second.root = program.views.begin()->first;
  CHECK(lowering::verify(program));
}
