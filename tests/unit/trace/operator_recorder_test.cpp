#include "runtime/random_state.h"
#include "trace/operator_recorder.h"

#include <ATen/ATen.h>
#include <catch2/catch.hpp>

#include <algorithm>
#include <functional>
#include <string>

namespace dynrun::trace {
namespace {

// A recorder that knows the tensors a test gives it.
struct Recording {
  OperatorRecorder recorder;
  std::vector<std::pair<at::Tensor, std::string>> outside;

  Recording() {
    recorder.resolve_outside = [this](const at::Tensor& tensor) {
      for (const auto& [known, name] : outside) {
        if (known.is_same(tensor)) return recorder.add_input(tensor, graph::InputKind::kActivation, name);
      }
      return graph::kNoValue;
    };
  }
  at::Tensor input(at::Tensor tensor, const std::string& name) {
    outside.emplace_back(tensor, name);
    return tensor;
  }
  std::string text() const { return graph::print(*recorder.graph()); }
};

at::Tensor floats(at::IntArrayRef sizes) {
  return at::ones(sizes);
}

}  // namespace

TEST_CASE("operators are recorded as they are called, not as what they are made of") {
  Recording it;
  at::Tensor x = it.input(floats({2, 3}), "x"), w = it.input(floats({4, 3}), "w");
  at::Tensor y;
  {
    RecordingScope scope(&it.recorder);
    y = at::linear(x, w).add(1.5).relu_();
  }
  at::relu(y);  // outside the scope
  CHECK(it.recorder.refusal() == Refusal::kNone);
  CHECK(it.recorder.find(y) != graph::kNoValue);
  CHECK_FALSE(graph::verify(*it.recorder.graph()));
  CHECK(it.text() ==
        "graph\n"
        "input %x: float32[2, 3]\n"
        "input %w: float32[4, 3]\n"
        "%linear_0_0: float32[2, 4] = aten::linear(%x, %w, None) mode(grad)\n"
        "%add_1_0: float32[2, 4] = aten::add.Scalar(%linear_0_0, 1.5, 1) mode(grad)\n"
        "%add_1_0 = aten::relu_(%add_1_0) mode(grad)\n"
        "return\n");
  CHECK(it.recorder.wrote());
  CHECK_FALSE(it.recorder.wrote_outside());
}

TEST_CASE("each node keeps the modes it ran under") {
  Recording it;
  at::Tensor x = it.input(floats({2}), "x");
  RecordingScope scope(&it.recorder);
  {
    at::NoGradGuard no_grad;
    at::neg(x);
  }
  at::neg(x);
  const auto& nodes = it.recorder.graph()->nodes;
  REQUIRE(nodes.size() == 2);
  CHECK_FALSE(nodes[0].mode.grad_enabled);
  CHECK(nodes[1].mode.grad_enabled);
}

TEST_CASE("elementwise operators follow a tensor whose size depends on data") {
  Recording it;
  at::Tensor x = it.input(floats({2, 2}), "x");
  {
    RecordingScope scope(&it.recorder);
    at::masked_select(x, x > 0).mul(2.5).tanh();
  }
  CHECK(it.recorder.refusal() == Refusal::kNone);
  const graph::Graph& graph = *it.recorder.graph();
  REQUIRE(graph.nodes.size() == 4);
  CHECK(graph.type_of(graph.nodes[3].outputs[0]).unsized);
}

TEST_CASE("what cannot be a node is refused, and the first reason is kept") {
  auto refused = [](const std::function<void(Recording&, const at::Tensor&)>& program) {
    Recording it;
    at::Tensor x = it.input(floats({2, 2}), "x");
    RecordingScope scope(&it.recorder);
    try {
      program(it, x);
    } catch (const c10::Error&) {
    }
    std::size_t recorded = it.recorder.graph()->nodes.size();
    at::neg(x);  // nothing is recorded once something was refused
    CHECK(it.recorder.graph()->nodes.size() == recorded);
    return it.recorder.refusal();
  };
  CHECK(refused([](Recording&, const at::Tensor& x) { at::equal(x, x); }) == Refusal::kDataDependent);
  CHECK(refused([](Recording&, const at::Tensor& x) { at::nonzero(x).split(1); }) == Refusal::kDataDependent);  // as many as data says
  CHECK(refused([](Recording&, const at::Tensor& x) { at::nonzero(x).add(at::nonzero(x)); }) == Refusal::kDataDependent);
  CHECK(refused([](Recording&, const at::Tensor& x) {
          x.sum().item();
          x.neg();
        }) != Refusal::kNone);
  at::Tensor unknown = floats({2});
  CHECK(refused([&](Recording&, const at::Tensor&) { at::neg(unknown); }) == Refusal::kUnknownTensor);
  CHECK(refused([](Recording&, const at::Tensor& x) { x.to_sparse(); }) != Refusal::kNone);
  CHECK(refused([](Recording&, const at::Tensor& x) { at::mm(x, x.new_ones({3, 3})); }) != Refusal::kNone);
  CHECK(refused([](Recording& it, const at::Tensor& x) {
          it.recorder.refuse(Refusal::kUnrecordable, "told so");
          at::nonzero(x);
        }) == Refusal::kUnrecordable);
}

TEST_CASE("a size that depends on data goes on through operators where it is understood") {
  Recording it;
  at::Tensor x = it.input(floats({2, 2}), "x");
  RecordingScope scope(&it.recorder);
  auto mark = it.recorder.mark();
  at::Tensor found = at::nonzero(x);
  CHECK(it.recorder.refusal() == Refusal::kNone);
  CHECK(it.recorder.is_unsized(it.recorder.find(found)));
  CHECK(it.text().find("!unsized = aten::nonzero(%x)") != std::string::npos);
  at::neg(x);
  CHECK(it.recorder.graph()->nodes.size() == 2);
  at::Tensor joined = at::cat({found, x.to(at::kLong)}), column = joined.select(1, 0), sum = joined.sum(0), rows = x.index_select(0, found.select(1, 0));
  CHECK(it.recorder.refusal() == Refusal::kNone);
  for (const at::Tensor& one : {joined, column, rows}) CHECK(it.recorder.is_unsized(it.recorder.find(one)));
  CHECK_FALSE(it.recorder.is_unsized(it.recorder.find(sum)));
  at::Tensor again = at::masked_select(found, found > 0), turned = found.t();
  CHECK(it.recorder.is_unsized(it.recorder.find(again)));
  CHECK(it.recorder.refusal() == Refusal::kNone);
  found.add_(1);  // what shows such memory is not written
  CHECK(it.recorder.refusal() == Refusal::kDataDependent);
  CHECK(it.recorder.refused_operator() == "aten::add_");
  it.recorder.rewind(mark);
  CHECK_FALSE(it.recorder.any_unsized());
}

TEST_CASE("a write to an outside tensor is noted, also through a view; what may raise on data is then refused") {
  Recording it;
  at::Tensor x = it.input(floats({4, 2}), "x"), index = it.input(at::zeros({2}, at::kLong), "index");
  RecordingScope scope(&it.recorder);
  at::Tensor row = x.select(0, 1);
  CHECK_FALSE(it.recorder.wrote_outside());
  row.add_(1);
  CHECK(it.recorder.wrote_outside());
  at::index_put(x, {index}, x.new_zeros({1}));
  CHECK(it.recorder.refusal() == Refusal::kMayRaiseAfterWrite);
  CHECK(it.recorder.refused_operator() == "aten::index_put");
}

TEST_CASE("an index that does not depend on what was written is checked in front of the first write") {
  Recording it;
  at::Tensor x = it.input(floats({4, 2}), "x"), index = it.input(at::zeros({2}, at::kLong), "index"), counter = it.input(at::zeros({}, at::kLong), "counter");
  RecordingScope scope(&it.recorder);
  at::Tensor before = x.neg();
  x.add_(1);
  at::Tensor places = at::arange(2) + index;
  x.index_select(0, places);
  CHECK(it.recorder.refusal() == Refusal::kNone);
  at::Tensor later = places + counter;
  counter.add_(1);
  x.index_copy_(0, later, before.slice(0, 0, 2));
  CHECK(it.recorder.refusal() == Refusal::kNone);
  CHECK(it.recorder.uncounted() == -2);
  const std::size_t program = it.recorder.graph()->nodes.size();
  it.recorder.hoist_checks();
  const auto& nodes = it.recorder.graph()->nodes;
  REQUIRE(nodes.size() == program + 2);
  auto place_of = [&](const std::string& name) {
    auto found = std::find_if(nodes.begin(), nodes.end(), [&](const dynrun::graph::Node& node) { return node.op_name() == name; });
    return found - nodes.begin();
  };
  CHECK(place_of("dynrun::require_range") < place_of("aten::add_.Tensor"));
  CHECK(place_of("aten::arange") < place_of("dynrun::require_range"));
}

TEST_CASE("an index that shows what was written in between is not checked early") {
  Recording it;
  at::Tensor x = it.input(floats({4, 2}), "x"), counter = it.input(at::zeros({1}, at::kLong), "counter");
  RecordingScope scope(&it.recorder);
  at::Tensor places = counter.view({1});
  counter.add_(1);
  x.index_select(0, places);
  CHECK(it.recorder.refusal() == Refusal::kMayRaiseAfterWrite);
}

TEST_CASE("an index that was written, or follows from what was, is not checked early") {
  for (bool counted : {false, true}) {
    Recording it;
    at::Tensor x = it.input(floats({4, 2}), "x"), counter = it.input(at::zeros({1}, at::kLong), "counter");
    RecordingScope scope(&it.recorder);
    at::Tensor places = at::zeros({1}, at::kLong);
    x.add_(1);
    (counted ? counter : places).add_(1);
    x.index_select(0, counted ? counter * 1 : places);
    CHECK(it.recorder.refusal() == Refusal::kMayRaiseAfterWrite);
  }
}

TEST_CASE("rewinding forgets nodes, values and inputs") {
  Recording it;
  at::Tensor x = it.input(floats({2}), "x"), y = it.input(floats({2}), "y");
  RecordingScope scope(&it.recorder);
  at::Tensor a = at::neg(x);
  std::string before = it.text();
  auto mark = it.recorder.mark();
  at::Tensor b = at::add(a, y);
  y.mul_(2);
  CHECK(it.recorder.wrote_outside());
  it.recorder.rewind(mark);
  CHECK(it.text() == before);
  CHECK_FALSE(it.recorder.wrote_outside());
  CHECK(it.recorder.find(b) == graph::kNoValue);
  CHECK(it.recorder.find(y) == graph::kNoValue);
  CHECK(it.recorder.find(a) != graph::kNoValue);
  at::Tensor c = at::add(a, y);
  CHECK(it.recorder.refusal() == Refusal::kNone);
  CHECK_FALSE(graph::verify(*it.recorder.graph()));
}

TEST_CASE("a recorded tensor that died is gone, and its address stands for nothing else") {
  Recording it;
  at::Tensor x = it.input(floats({1000}), "x");
  RecordingScope scope(&it.recorder);
  graph::ValueId first;
  {
    at::Tensor y = at::neg(x);
    first = it.recorder.find(y);
    CHECK(it.recorder.tensor(first).is_same(y));
  }
  CHECK_FALSE(it.recorder.tensor(first).defined());
  for (int i = 0; i < 8; i++) CHECK(it.recorder.find(at::neg(x)) != first);
}

TEST_CASE("data from Python becomes a constant of the graph, copied on each replay") {
  Recording it;
  at::Tensor x = it.input(floats({3}), "x");
  RecordingScope scope(&it.recorder);
  it.recorder.start_instruction();
  at::Tensor data = at::arange(3, at::kFloat);  // stands for what torch.tensor fills behind the dispatcher
  at::Tensor literal = at::lift_fresh(data);
  CHECK(it.recorder.is_constant(it.recorder.find(literal)));
  at::Tensor doubled = literal * 2;
  CHECK(it.recorder.is_constant(it.recorder.find(doubled)));
  CHECK_FALSE(it.recorder.is_constant(it.recorder.find(doubled + x)));
  CHECK(it.recorder.constants().size() == 1);
  CHECK(doubled.sum().item().toDouble() == 6);  // a number that follows from constants may be looked at
  CHECK(it.recorder.refusal() == Refusal::kNone);
}

TEST_CASE("random operators are noted") {
  Recording it;
  at::Tensor x = it.input(floats({3}), "x");
  RecordingScope scope(&it.recorder);
  at::neg(x);
  CHECK(runtime::drawn_from(*it.recorder.graph()).empty());
  at::rand_like(x);
  CHECK(runtime::drawn_from(*it.recorder.graph()) == std::vector<c10::Device>{c10::kCPU});
}

}  // namespace dynrun::trace
