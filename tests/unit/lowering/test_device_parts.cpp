// A graph of several GPUs is cut where the GPU changes, and around looks at values. The tensors here lie on the CPU: the graphs' types say otherwise.

#include "graph_builder.h"
#include "lowering/device_parts.h"
#include "runtime/require_truth.h"

using namespace dynrun;
using namespace dynrun::test;

namespace {

void put(const GraphBuilder& b, ValueId id, int gpu) {
  std::get<graph::TensorType>(b.graph()->values[static_cast<std::size_t>(id)].type).device = c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(gpu));
}

std::vector<std::size_t> lengths(const std::vector<lowering::GraphPart>& parts) {
  std::vector<std::size_t> lengths;
  for (const lowering::GraphPart& part : parts) lengths.push_back(part->nodes.size());
  return lengths;
}

std::vector<at::Tensor> run(const GraphBuilder& b, const std::vector<lowering::GraphPart>& parts) {
  std::vector<std::unique_ptr<runtime::Executable>> executables;
  for (const lowering::GraphPart& part : parts) {
    INFO(graph::print(*part));
    CHECK_FALSE(graph::verify(*part));
    executables.push_back(runtime::make_replayer(part));
  }
  return lowering::join_parts(*b.graph(), parts, std::move(executables))->run(b.inputs());
}

void check_outputs(const GraphBuilder& b, const std::vector<lowering::GraphPart>& parts) {
  std::vector<at::Tensor> expected = runtime::make_replayer(b.graph())->run(b.inputs()), got = run(b, parts);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); i++) CHECK(at::equal(got[i], expected[i]));
}

}  // namespace

TEST_CASE("a model over two GPUs is a part for each and the copy between", "[devices]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4, 6})), w = b.input(at::randn({6, 3}), true), v = b.input(at::randn({3, 5}), true);
  ValueId y = b.one("aten::mm", {ref(x), ref(w)});
  ValueId r = b.one("aten::relu", {ref(y)});
  ValueId c = b.one("aten::clone", {ref(r)});  // stands for the copy
  ValueId p = b.one("aten::mm", {ref(c), ref(v)});
  ValueId q = b.one("aten::add.Tensor", {ref(p), ref(p)});
  b.output(q), b.output(y), b.output(x);
  for (ValueId id : {x, w, y, r}) put(b, id, 0);
  for (ValueId id : {v, c, p, q}) put(b, id, 1);
  const auto parts = lowering::split_at_devices(*b.graph());
  CHECK(lengths(parts) == std::vector<std::size_t>{2, 1, 2});
  check_outputs(b, parts);
  CHECK(parts[0]->inputs.size() == 2);
  CHECK(parts[2]->inputs.size() == 2);
  for (const lowering::GraphPart& part : parts) CHECK(lowering::split_at_devices(*part).empty());
}

TEST_CASE("one GPU, or gradients, leave the graph whole", "[devices]") {
  GraphBuilder b;
  ValueId x = b.input(at::randn({4}));
  ValueId y = b.one("aten::relu", {ref(x)});
  ValueId c = b.one("aten::clone", {ref(y)});
  b.output(c);
  for (ValueId id : {x, y, c}) put(b, id, 1);
  CHECK(lowering::split_at_devices(*b.graph()).empty());
  put(b, c, 0);
  CHECK(lengths(lowering::split_at_devices(*b.graph())) == std::vector<std::size_t>{1, 1});
  for (graph::Node& node : b.graph()->nodes) node.mode.grad_enabled = true;
  CHECK_FALSE(lowering::split_at_devices(*b.graph()).empty());
  std::get<graph::TensorType>(b.graph()->values[static_cast<std::size_t>(x)].type).requires_grad = true;
  CHECK(lowering::split_at_devices(*b.graph()).empty());
}

TEST_CASE("parts write in place what has one name there", "[devices]") {
  for (bool twice : {false, true}) {
    GraphBuilder b;
    ValueId x = b.input(at::randn({4, 6})), z = b.input(at::randn({4, 6}));
    ValueId y = b.one("aten::add.Tensor", {ref(x), ref(x)});
    ValueId view = b.one("aten::view", {ref(y), val(std::vector<std::int64_t>{24})});
    b.one("aten::relu_", {ref(y)});
    ValueId far = b.one("aten::clone", {ref(z)});
    ValueId back = b.one("aten::clone", {ref(far)});
    b.one("aten::sin_", {ref(y)});
    ValueId sum = twice ? b.one("aten::add.Tensor", {ref(back), ref(b.one("aten::view", {ref(view), val(std::vector<std::int64_t>{4, 6})}))}) : b.one("aten::add.Tensor", {ref(back), ref(y)});
    b.output(sum), b.output(view), b.output(y);
    for (const graph::Value& value : b.graph()->values) put(b, static_cast<ValueId>(&value - b.graph()->values.data()), 0);
    put(b, far, 1);
    const auto parts = lowering::split_at_devices(*b.graph());
    CHECK(parts.empty() == twice);
    if (!twice) check_outputs(b, parts);
  }
}

TEST_CASE("what is looked at on the way cuts a GPU's graph in parts, and the CPU's not", "[devices]") {
  for (bool on_gpu : {false, true}) {
    GraphBuilder b;
    ValueId x = b.input(at::ones({4}));
    ValueId y = b.one("aten::relu", {ref(x)});
    ValueId all = b.one("aten::all", {ref(y)});
    CHECK_FALSE(runtime::is_refuted(1));
    const auto require = c10::Dispatcher::singleton().findSchemaOrThrow("dynrun::require_truth", "");
    b.graph()->nodes.push_back({require, {ref(all), val(true), val(std::int64_t{1})}, {}, {}, {}, -1});
    ValueId z = b.one("aten::sin", {ref(y)});
    b.output(z);
    if (on_gpu) {
      for (ValueId id : {x, y, all, z}) put(b, id, 0);
    }
    const auto parts = lowering::split_at_devices(*b.graph());
    CHECK(lengths(parts) == (on_gpu ? std::vector<std::size_t>{2, 1, 1} : std::vector<std::size_t>{}));
    if (on_gpu) check_outputs(b, parts);
  }
}

TEST_CASE("a part may be nothing but a look at a value", "[devices]") {
  GraphBuilder b;
  ValueId all = b.input(at::ones({}).to(at::kBool));
  const auto require = c10::Dispatcher::singleton().findSchemaOrThrow("dynrun::require_truth", "");
  b.graph()->nodes.push_back({require, {ref(all), val(true), val(std::int64_t{2})}, {}, {}, {}, -1});
  lowering::Lowered lowered = lowering::lower(b.graph(), b.inputs(), {});
  CHECK(lowered.executable->run(b.inputs()).empty());
  CHECK_THROWS(lowered.executable->run({at::zeros({}).to(at::kBool)}));
  CHECK_FALSE(runtime::is_refuted(2));
  for (int i = 0; i < 3; i++) CHECK_THROWS(lowered.executable->run({at::zeros({}).to(at::kBool)}));
  CHECK(runtime::is_refuted(2));
}
