// Every operator with a rule, against libtorch, over dtypes, sizes, broadcasting, layouts and special values.

#include "graph_builder.h"

#include <limits>

using namespace dynrun;
using namespace dynrun::test;

namespace {

const std::vector<c10::ScalarType> kFloats = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf};

at::Tensor make(std::vector<std::int64_t> sizes, c10::ScalarType dtype, bool special = false) {
  if (dtype == at::kBool) return at::rand(sizes) > 0.5;
  if (!c10::isFloatingType(dtype)) return at::randint(dtype == at::kByte ? 0 : -20, 20, sizes).to(dtype);
  at::Tensor tensor = (at::randn(sizes) * 2).to(dtype);
  if (special && tensor.numel() >= 8) {
    at::Tensor flat = tensor.view({-1});
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    const double values[] = {kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(), 0.0, -0.0, 90.0, -110.0, 1e-6};
    for (int i = 0; i < 8; ++i) flat[i].fill_(values[i]);
  }
  return tensor;
}

struct Unary {
  const char* name;
  std::vector<Argument> rest;
};

/// Runs one operator on one tensor and demands that it became a kernel.
void check_unary(const Unary& unary, const at::Tensor& tensor, bool must_fuse = true) {
  GraphBuilder b;
  std::vector<Argument> arguments = {ref(b.input(tensor))};
  arguments.insert(arguments.end(), unary.rest.begin(), unary.rest.end());
  for (ValueId id : b.call(unary.name, arguments)) b.output(id);
  Checked checked = check(b);
  INFO(unary.name << " " << tensor.scalar_type() << " " << tensor.sizes() << " " << tensor.strides());
  CHECK(checked.problem == "");
  if (must_fuse) CHECK(checked.externs == 0);
}

const std::vector<Unary>& float_unaries() {
  static const std::vector<Unary> list = {
      {"aten::neg", {}},
      {"aten::abs", {}},
      {"aten::sign", {}},
      {"aten::exp", {}},
      {"aten::expm1", {}},
      {"aten::log", {}},
      {"aten::log1p", {}},
      {"aten::log2", {}},
      {"aten::log10", {}},
      {"aten::rsqrt", {}},
      {"aten::sin", {}},
      {"aten::cos", {}},
      {"aten::tanh", {}},
      {"aten::erf", {}},
      {"aten::floor", {}},
      {"aten::ceil", {}},
      {"aten::round", {}},
      {"aten::trunc", {}},
      {"aten::relu", {}},
      {"aten::relu6", {}},
      {"aten::sigmoid", {}},
      {"aten::silu", {}},
      {"aten::hardsigmoid", {}},
      {"aten::hardswish", {}},
      {"aten::leaky_relu", {val(0.1)}},
      {"aten::elu", {}},
      {"aten::softplus", {}},
      {"aten::mish", {}},
      {"aten::gelu", {val("tanh")}},
      {"aten::reciprocal", {}},
      {"aten::square", {}},
      {"aten::pow.Tensor_Scalar", {val(2)}},
      {"aten::pow.Tensor_Scalar", {val(3)}},
      {"aten::pow.Tensor_Scalar", {val(0.5)}},
      {"aten::pow.Tensor_Scalar", {val(1.7)}},
      {"aten::clamp", {val(-0.5), val(0.7)}},
      {"aten::clamp", {val(-1)}},
      {"aten::hardtanh", {}},
      {"aten::add.Scalar", {val(1.5)}},
      {"aten::mul.Scalar", {val(3)}},
      {"aten::div.Scalar", {val(3.0)}},
      {"aten::rsub.Scalar", {val(1)}},
      {"aten::eq.Scalar", {val(0)}},
      {"aten::ne.Scalar", {val(0)}},
      {"aten::lt.Scalar", {val(0.5)}},
      {"aten::ge.Scalar", {val(0.5)}},
      {"aten::isnan", {}},
      {"aten::isinf", {}},
      {"aten::threshold", {val(0.5), val(-1.0)}},
      {"aten::logical_not", {}},
  };
  return list;
}

}  // namespace

TEST_CASE("pointwise operators on floats", "[operators]") {
  at::manual_seed(1);
  for (c10::ScalarType dtype : kFloats) {
    bool half = dtype == at::kHalf || dtype == at::kBFloat16;
    for (const Unary& unary : float_unaries()) {
      check_unary(unary, make({3, 37}, dtype, true), !(half && std::string(unary.name) == "aten::pow.Tensor_Scalar"));
    }
    // oneDNN's gelu, eager's in float32, gives NaN for infinities: not a meaning to copy.
    check_unary({"aten::gelu", {}}, make({3, 37}, dtype));
  }
}

TEST_CASE("mathematical functions over their whole range", "[operators]") {
  at::Tensor bits = at::arange(0, std::int64_t{1} << 32, 65537, at::kLong).to(at::kInt);
  at::Tensor all = bits.view(at::kFloat);
  for (const char* name :
       {"aten::exp", "aten::expm1", "aten::log", "aten::log1p", "aten::tanh", "aten::erf", "aten::sigmoid", "aten::silu"}) {
    check_unary({name, {}}, all);
  }
}

TEST_CASE("pointwise operators on integers and booleans", "[operators]") {
  at::manual_seed(2);
  for (c10::ScalarType dtype : {at::kLong, at::kInt, at::kShort, at::kChar, at::kByte}) {
    for (const char* name : {"aten::neg", "aten::abs", "aten::sign", "aten::relu", "aten::square", "aten::bitwise_not",
                             "aten::logical_not", "aten::floor"}) {
      check_unary({name, {}}, make({5, 9}, dtype));
    }
    for (const char* name : {"aten::rsqrt", "aten::exp", "aten::sigmoid"}) check_unary({name, {}}, make({5, 9}, dtype).abs());
    check_unary({"aten::add.Scalar", {val(3)}}, make({70}, dtype));
    check_unary({"aten::mul.Scalar", {val(2.5)}}, make({70}, dtype));
    check_unary({"aten::div.Scalar", {val(3)}}, make({70}, dtype));
    check_unary({"aten::clamp", {val(-3), val(7)}}, make({70}, dtype));
    check_unary({"aten::gt.Scalar", {val(2)}}, make({70}, dtype));
  }
  check_unary({"aten::logical_not", {}}, make({33}, at::kBool));
  check_unary({"aten::bitwise_not", {}}, make({33}, at::kBool));
  check_unary({"aten::add.Scalar", {val(2)}}, make({33}, at::kBool));
  check_unary({"aten::mul.Scalar", {val(0.5)}}, make({33}, at::kBool));
}

TEST_CASE("conversions between all dtypes", "[operators]") {
  at::manual_seed(3);
  const std::vector<c10::ScalarType> all = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf, at::kLong,
                                            at::kInt,   at::kShort,  at::kChar,     at::kByte, at::kBool};
  for (c10::ScalarType from : all) {
    for (c10::ScalarType to : all) {
      at::Tensor tensor = make({41}, from);
      if (to == at::kByte && from != at::kBool) tensor = tensor.abs();
      check_unary({"aten::to.dtype", {val(static_cast<int>(to))}}, tensor, from != to);
    }
  }
}

TEST_CASE("binary operators broadcast and promote", "[operators]") {
  at::manual_seed(4);
  const std::vector<std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> shapes = {
      {{4, 19}, {4, 19}}, {{4, 19}, {19}}, {{4, 1, 19}, {3, 1}}, {{5, 1}, {1, 6}}, {{17}, {}},
      {{}, {17}},         {{}, {}},        {{1}, {1, 1}},        {{0, 3}, {3}}};
  const std::vector<c10::ScalarType> dtypes = {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                                               at::kLong,  at::kInt,    at::kBool};
  for (const char* name :
       {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor", "aten::div.Tensor", "aten::maximum", "aten::minimum",
        "aten::eq.Tensor", "aten::lt.Tensor", "aten::ge.Tensor", "aten::logical_and", "aten::bitwise_xor.Tensor"}) {
    for (c10::ScalarType first : dtypes) {
      for (c10::ScalarType second : dtypes) {
        std::string op = name;
        if (op == "aten::sub.Tensor" && (first == at::kBool || second == at::kBool)) continue;
        if (op == "aten::bitwise_xor.Tensor" && (c10::isFloatingType(first) || c10::isFloatingType(second))) continue;
        auto [left, right] = shapes[static_cast<std::size_t>(std::rand()) % shapes.size()];
        GraphBuilder b;
        ValueId x = b.input(make(left, first)), y = b.input(make(right, second));
        b.output(b.one(name, {ref(x), ref(y)}));
        INFO(op << " " << first << left.size() << " " << second << right.size());
        CHECK(check(b).problem == "");
      }
    }
  }
}

TEST_CASE("maximum and minimum pass NaN on", "[operators]") {
  for (const char* name : {"aten::maximum", "aten::minimum"}) {
    GraphBuilder b;
    at::Tensor x = make({16}, at::kFloat, true);
    ValueId a = b.input(x), c = b.input(x.flip(0).contiguous());
    b.output(b.one(name, {ref(a), ref(c)}));
    CHECK(check(b).problem == "");
  }
}

TEST_CASE("reductions", "[operators]") {
  at::manual_seed(5);
  auto keep = [](bool flag) { return val(flag); };
  for (c10::ScalarType dtype : kFloats) {
    for (auto sizes : std::vector<std::vector<std::int64_t>>{{6, 37}, {3, 5, 64}, {2, 130, 7}, {1, 1}, {9, 4, 3, 20}}) {
      at::Tensor tensor = make(sizes, dtype);
      for (std::int64_t dim : {-1, 0, 1}) {
        for (bool keepdim : {false, true}) {
          check_unary({"aten::sum.dim_IntList", {ints({dim}), keep(keepdim)}}, tensor);
          check_unary({"aten::mean.dim", {ints({dim}), keep(keepdim)}}, tensor);
          check_unary({"aten::amax", {ints({dim}), keep(keepdim)}}, tensor);
          check_unary({"aten::amin", {ints({dim}), keep(keepdim)}}, tensor);
          if (sizes[0] > 1) check_unary({"aten::var.correction", {ints({dim}), val(1), keep(keepdim)}}, tensor);
        }
        check_unary({"aten::softmax.int", {val(dim)}}, tensor);
        check_unary({"aten::log_softmax.int", {val(dim)}}, tensor, dtype == at::kFloat || dtype == at::kDouble);
      }
      check_unary({"aten::sum", {}}, tensor);
      check_unary({"aten::mean", {}}, tensor);
      if (sizes.back() > 1) check_unary({"aten::layer_norm", {ints({sizes.back()})}}, tensor);
      check_unary({"aten::softmax.int", {val(-1)}}, tensor.transpose(0, 1));
    }
  }
  check_unary({"aten::sum.dim_IntList", {ints({1})}}, make({6, 50}, at::kLong));
  check_unary({"aten::sum.dim_IntList", {ints({1})}}, make({6, 50}, at::kBool));
  check_unary({"aten::amax", {ints({0})}}, make({6, 50}, at::kInt));
  check_unary({"aten::amax", {ints({1})}}, make({6, 50}, at::kFloat, true));
  check_unary({"aten::amin", {ints({1})}}, make({6, 50}, at::kFloat, true));
  check_unary({"aten::softmax.int", {val(1)}}, make({6, 50}, at::kFloat, true));
  check_unary({"aten::mean.dim", {ints({2, 3})}}, make({2, 24, 7, 7}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast));
  check_unary({"aten::var_mean.correction", {ints({1}), val(0), val(true)}}, make({12, 77}, at::kFloat, true), false);
  check_unary({"aten::softmax.int", {val(0)}}, make({0, 5}, at::kFloat), false);
}

TEST_CASE("norms with weights", "[operators]") {
  at::manual_seed(6);
  for (c10::ScalarType dtype : kFloats) {
    GraphBuilder b;
    ValueId x = b.input(make({2, 12, 50}, dtype)), w = b.input(make({50}, dtype), true), c = b.input(make({50}, dtype), true);
    b.output(b.one("aten::layer_norm", {ref(x), ints({50}), ref(w), ref(c)}));
    CHECK(check(b).problem == "");
  }
  GraphBuilder b;
  ValueId x = b.input(make({2, 12, 5, 6}, at::kFloat)), w = b.input(make({12}, at::kFloat)),
          c = b.input(make({12}, at::kFloat));
  ValueId mean = b.input(make({12}, at::kFloat)), var = b.input(make({12}, at::kFloat).abs());
  b.output(
      b.one("aten::batch_norm", {ref(x), ref(w), ref(c), ref(mean), ref(var), val(false), val(0.1), val(1e-5), val(true)}));
  b.output(b.one("aten::group_norm", {ref(x), val(4), ref(w), ref(c)}));
  b.output(b.one("aten::rms_norm", {ref(x), ints({6})}));
  Checked checked = check(b);
  CHECK(checked.problem == "");
  CHECK(checked.externs == 0);
}

TEST_CASE("layouts: transposed, strided, channels last, expanded, sliced", "[operators]") {
  at::manual_seed(7);
  at::Tensor x = make({6, 8, 10}, at::kFloat);
  const std::vector<at::Tensor> tensors = {x.transpose(0, 2),
                                           x.slice(2, 1, 9, 2),
                                           x.slice(1, 3),
                                           x.permute({1, 2, 0}),
                                           make({1, 8, 1}, at::kFloat).expand({6, 8, 10}),
                                           make({2, 16, 5, 5}, at::kFloat).contiguous(at::MemoryFormat::ChannelsLast)};
  for (const at::Tensor& tensor : tensors) {
    for (const char* name : {"aten::relu", "aten::clone", "aten::contiguous", "aten::sigmoid"}) {
      check_unary({name, {}}, tensor, std::string(name) != "aten::contiguous");
    }
    check_unary({"aten::reshape", {ints({-1})}}, tensor, false);
    check_unary({"aten::softmax.int", {val(1)}}, tensor);
    check_unary({"aten::to.dtype", {val(static_cast<int>(at::kDouble))}}, tensor);
  }
}

TEST_CASE("where, masks, cat, stack and factories", "[operators]") {
  at::manual_seed(8);
  GraphBuilder b;
  ValueId x = b.input(make({4, 9}, at::kFloat)), y = b.input(make({4, 9}, at::kFloat)), m = b.input(make({4, 1}, at::kBool));
  ValueId e = b.one("aten::exp", {ref(x)});
  b.output(b.one("aten::where.self", {ref(m), ref(x), ref(y)}));
  b.output(b.one("aten::masked_fill.Scalar", {ref(x), ref(m), val(-std::numeric_limits<double>::infinity())}));
  b.output(b.one("aten::cat", {refs({e, y, x}), val(1)}));
  b.output(b.one("aten::cat", {refs({x, y}), val(0)}));
  b.output(b.one("aten::stack", {refs({e, y}), val(-1)}));
  b.output(b.one("aten::arange.start_step", {val(3), val(20), val(2)}));
  b.output(b.one("aten::full", {ints({3, 2}), val(2.5)}));
  b.output(b.one("aten::zeros_like", {ref(x)}));
  b.output(b.one("aten::ones_like", {ref(m)}));
  b.output(b.one("aten::add.Tensor", {ref(x), val(2.5)}));
  CHECK(check(b).problem == "");
}
