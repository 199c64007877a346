// Golden loops: what is fused, how loops are ordered and melted; concurrency of compiled graphs.

#include "graph_builder.h"

#include <thread>

using namespace dynrun;
using namespace dynrun::test;

namespace {

std::string loops_of(const char* text, lowering::Shared* shared = nullptr) {
  auto graph = std::make_shared<graph::Graph>(graph::parse(text));
  REQUIRE(graph::verify(*graph).value_or("") == "");
  std::vector<at::Tensor> inputs;
  for (const graph::Input& input : graph->inputs) {
    const auto& type = graph->type_of(input.value);
    inputs.push_back(at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype)).zero_());
  }
  std::string loops;
  lowering::Options options;
  options.dump = [&](const std::string& stage, const std::string& dumped) {
    if (stage == "loops") loops = dumped;
  };
  options.shared = shared;
  options.contents.assign(inputs.size(), 0);
  lowering::lower(graph, inputs, options);
  return "\n" + loops;
}

}  // namespace

TEST_CASE("a chain of pointwise operators is one flat loop", "[loops]") {
  CHECK(loops_of(R"(
input %x: float32[2, 3, 4]
input %y: float32[2, 3, 4]
%a: float32[2, 3, 4] = aten::add.Tensor(%x, %y, 1)
%b: float32[2, 3, 4] = aten::relu(%a)
return %b
)") == R"(
kernel rows [] inner [24] vector inner
buffer 0 float32
buffer 1 float32
buffer 2 float32 written
%0 = load float32 0[i0]
%1 = load float32 1[i0]
%2 = add float32 %0 %1
%3 = constant float32 0
%4 = max float32 %2 %3
store 2[i0] = %4

)");
}

TEST_CASE("what differs from one size to the next is an argument", "[loops]") {
  lowering::Shared shared;
  const char* small = R"(
input %x: float32[2, 3, 8]
input %y: float32[3, 1]
%a: float32[2, 3, 8] = aten::add.Tensor(%x, %y, 1)
%b: float32[2, 3, 1] = aten::mean.dim(%a, int[2], true, None)
return %b
)";
  loops_of(small, &shared);
  const std::string general = loops_of(R"(
input %x: float32[5, 3, 16]
input %y: float32[3, 1]
%a: float32[5, 3, 16] = aten::add.Tensor(%x, %y, 1)
%b: float32[5, 3, 1] = aten::mean.dim(%a, int[2], true, None)
return %b
)",
                                       &shared);
  CHECK(general == R"(
kernel rows [$0, 3] inner [$1] vector inner
buffer 0 float32
buffer 1 float32
buffer 2 float32 written
%0 = load float32 0[i0*$2 + i1*$1 + i2]
%1 = load float32 1[i1]
%2 = add float32 %0 %1
%3 = reduce sum float32 %2
%4 = constant float32 $3
%5 = div float32 %3 %4
store row 2[i0*3 + i1] = %5

)");
  CHECK(loops_of(small, &shared) == general);
}

TEST_CASE("broadcasting keeps the loops it needs", "[loops]") {
  CHECK(loops_of(R"(
input %x: float32[2, 3, 4, 5]
input %y: float32[3, 1, 1]
%a: float32[2, 3, 4, 5] = aten::mul.Tensor(%x, %y)
return %a
)") == R"(
kernel rows [2, 3] inner [20] vector inner
buffer 0 float32
buffer 1 float32
buffer 2 float32 written
%0 = load float32 0[i0*60 + i1*20 + i2]
%1 = load float32 1[i1]
%2 = mul float32 %0 %1
store 2[i0*60 + i1*20 + i2] = %2

)");
}

TEST_CASE("softmax with its prologue is one kernel over rows", "[loops]") {
  CHECK(loops_of(R"(
input %x: float32[2, 3, 7]
%a: float32[2, 3, 7] = aten::mul.Tensor(%x, 0.5)
%b: float32[2, 3, 7] = aten::softmax.int(%a, -1, None)
return %b
)") == R"(
kernel rows [6] inner [7] vector inner
buffer 0 float32
buffer 1 float32 written
%0 = load float32 0[i0*7 + i1]
%1 = constant float32 0.5
%2 = mul float32 %0 %1
%3 = reduce max float32 %2
%4 = sub float32 %2 %3
%5 = exp float32 %4
%6 = constant float32 1
%7 = reduce sum float32 %5
%8 = div float32 %6 %7
%9 = mul float32 %5 %8
store 1[i0*7 + i1] = %9

)");
}

TEST_CASE("a reduction across memory takes a row in each lane", "[loops]") {
  CHECK(loops_of(R"(
input %x: float32[5, 32]
%a: float32[32] = aten::sum.dim_IntList(%x, int[0], false, None)
return %a
)") == R"(
kernel rows [32] inner [5] vector rows
buffer 0 float32
buffer 1 float32 written
%0 = load float32 0[i0 + i1*32]
%1 = reduce sum float32 %0
store row 1[i0] = %1

)");
}

TEST_CASE("bfloat16 is rounded where eager rounds", "[loops]") {
  CHECK(loops_of(R"(
input %x: bfloat16[8]
%a: bfloat16[8] = aten::add.Tensor(%x, %x, 1)
%b: bfloat16[8] = aten::exp(%a)
return %b
)") == R"(
kernel rows [] inner [8] vector inner
buffer 0 bfloat16
buffer 1 bfloat16 written
%0 = load bfloat16 0[i0]
%1 = cast float32 %0
%2 = add float32 %1 %1
%3 = cast bfloat16 %2
%4 = cast float32 %3
%5 = exp float32 %4
%6 = cast bfloat16 %5
store 1[i0] = %6

)");
}

TEST_CASE("threads may run one executable at once", "[threads]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({64, 300})), w = b.input(at::randn({300, 300}), true);
  ValueId h = b.one("aten::linear", {ref(x), ref(w)});
  h = b.one("aten::softmax.int", {ref(b.one("aten::gelu", {ref(h)})), val(-1)});
  b.output(b.one("aten::cumsum", {ref(h), val(0)}));
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  auto replayer = runtime::make_replayer(b.graph());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        at::Tensor input = at::full({64, 300}, 0.01 * (t * 20 + i));
        std::vector<at::Tensor> inputs = {input, b.inputs()[1]};
        if (!at::allclose(lowered.executable->run(inputs)[0], replayer->run(inputs)[0], 1e-4, 1e-5)) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a run keeps neither inputs nor results alive", "[threads]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({8, 8}));
  ValueId y = b.one("aten::relu", {ref(x)});
  b.output(b.one("aten::cumsum", {ref(b.one("aten::t", {ref(y)})), val(0)}));
  b.output(b.one("aten::select.int", {ref(x), val(0), val(1)}));
  lowering::Options options;
  auto lowered = lowering::lower(b.graph(), b.inputs(), options);
  at::Tensor input = at::randn({8, 8});
  auto outputs = lowered.executable->run({input});
  CHECK(outputs[0].use_count() == 1);
  outputs.clear();
  CHECK(input.use_count() == 1);
  CHECK(input.storage().use_count() == 1);
}

TEST_CASE("executables share one arena when they run in turn", "[threads]") {
  // The larger plan replaces the arena; going back and forth stays right.
  auto build = [](GraphBuilder& b, std::int64_t size) {
    ValueId x = b.input(at::randn({size, 64}));
    ValueId y = b.one("aten::cumsum", {ref(b.one("aten::relu", {ref(x)})), val(0)});
    ValueId z = b.one("aten::exp", {ref(b.one("aten::mul.Scalar", {ref(y), val(0.01)}))});
    b.output(b.one("aten::sort", {ref(b.one("aten::cumsum", {ref(z), val(1)}))}));
  };
  GraphBuilder small, large;
  build(small, 8);
  build(large, 500);
  lowering::Options options;
  auto first = lowering::lower(small.graph(), small.inputs(), options),
       second = lowering::lower(large.graph(), large.inputs(), options);
  at::Tensor small_result = runtime::make_replayer(small.graph())->run(small.inputs())[0];
  at::Tensor large_result = runtime::make_replayer(large.graph())->run(large.inputs())[0];
  for (int i = 0; i < 4; ++i) {
    CHECK(at::allclose(first.executable->run(small.inputs())[0], small_result));
    CHECK(at::allclose(second.executable->run(large.inputs())[0], large_result));
  }
}
