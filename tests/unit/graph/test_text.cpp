#include "graph/graph.h"

#include <ATen/ATen.h>
#include <catch2/catch.hpp>

using namespace dynrun::graph;

namespace {

const char* const kText = R"(graph
source 0 "model.py" "forward \"x\"" 12
input %arg0[1].x: float32[1, 3, 8, 8]
parameter %conv.weight: float32[4, 3, 1, 1]{1, 4, 4, 4}!grad
input %n: int64[]
%y: float32[1, 4, 8, 8] = aten::conv2d(%arg0[1].x, %conv.weight, None, int[1, 1], int[0, 0], int[1, 1], 1) source 0
%y = aten::relu_(%y) mode(grad)
[%a: float32[1, 2, 8, 8], %b: float32[1, 2, 8, 8]] = aten::chunk(%y, 2, 1) mode(inference, autocast bfloat16)
%c: float32[2, 2, 8, 8] = aten::cat([%a, %b], 0)
%d: float32[2, 2, 8, 8] = aten::add.Scalar(%c, 1.5, 1)
%k: int = aten::size.int(%d, 0)
%e: float32[2] = aten::empty.memory_format([%k], 6, None, device("cpu"), false, None)
_, %f: int64[2, 2, 8] = aten::max.dim(%d, -1, false)
%g: int64[5, 4]{1, 5}!unsized = aten::nonzero(%d)
return %d, %f, %y
)";

}  // namespace

TEST_CASE("a graph survives the round trip through text", "[graph]") {
  Graph graph = parse(kText);
  REQUIRE_FALSE(verify(graph));
  CHECK(print(graph) == kText);
  CHECK(graph.nodes.size() == 9);
  CHECK(graph.any_grad_mode());
  CHECK(graph.type_of(graph.inputs[1].value).requires_grad);
  CHECK_FALSE(graph.type_of(graph.inputs[1].value).is_contiguous());
}

TEST_CASE("the parser names the line it cannot read", "[graph]") {
  auto message = [](const char* text) {
    try {
      parse(text);
    } catch (const std::invalid_argument& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  CHECK(message("graph\n%y: float32[1] = aten::relu(%x)\n").find("line 2") != std::string::npos);
  CHECK(message("input %x: float99[1]\n").find("no dtype float99") != std::string::npos);
  CHECK(message("%y: float32[1] = aten::nothing()\n").find("no operator aten::nothing") != std::string::npos);
  CHECK(message("input %x: float32[1]\ninput %x: float32[1]\n").find("defined twice") != std::string::npos);
}

TEST_CASE("the verifier finds what is wrong", "[graph]") {
  Graph graph = parse("input %x: float32[4]\n%y: float32[4] = aten::relu(%x)\n%z: float32[4] = aten::relu(%y)\nreturn %z\n");
  REQUIRE_FALSE(verify(graph));
  SECTION("use before definition") {
    std::swap(graph.nodes[0], graph.nodes[1]);
    CHECK(verify(graph)->find("before it is made") != std::string::npos);
  }
  SECTION("wrong number of arguments") {
    graph.nodes[0].arguments.clear();
    CHECK(verify(graph)->find("0 arguments") != std::string::npos);
  }
  SECTION("outputs that do not fit") {
    graph.nodes[0].outputs.clear();
    CHECK(verify(graph)->find("do not fit") != std::string::npos);
  }
  SECTION("a name used twice") {
    graph.values[1].name = std::string("x");
    CHECK(verify(graph)->find("named %x") != std::string::npos);
  }
}

TEST_CASE("tensor types are read from tensors", "[graph]") {
  at::Tensor tensor = at::zeros({2, 3}, at::kBFloat16).t();
  TensorType type = TensorType::of(tensor);
  CHECK(type.sizes == std::vector<std::int64_t>{3, 2});
  CHECK(type.strides == std::vector<std::int64_t>{1, 3});
  CHECK(type.element_count() == 6);
  CHECK_FALSE(type.is_contiguous());
}
