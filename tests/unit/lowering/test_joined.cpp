// Concatenations that are made where they are read.

#include "graph_builder.h"

#include <random>

using namespace dynrun;
using namespace dynrun::test;

namespace {

class Cats {
 public:
  explicit Cats(std::uint64_t seed, std::int64_t growth = 0) : random_(seed), growth_(growth) {}

  void build(GraphBuilder& b) {
    static const c10::ScalarType kTypes[] = {at::kFloat, at::kBFloat16, at::kHalf, at::kDouble, at::kLong};
    const c10::ScalarType dtype = kTypes[pick(5)];
    const std::int64_t dimension = pick(3);
    std::vector<ValueId> parts;
    for (std::int64_t count = 2 + pick(3), i = 0; i < count; ++i) parts.push_back(part(b, dtype, dimension));
    ValueId whole = b.one("aten::cat", {refs(parts), val(dimension - (pick(2) == 0 ? 3 : 0))});
    if (pick(3) == 0) whole = b.one("aten::cat", {refs({whole, b.one("aten::abs", {ref(whole)})}), val(pick(3))});
    for (std::int64_t count = 1 + pick(2), i = 0; i < count; ++i) b.output(reader(b, whole, dtype));
    if (pick(6) == 0) b.output(whole);
    if (pick(6) == 0) b.output(parts[0]);
  }

 private:
  std::int64_t pick(std::int64_t count) { return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(count)); }

  at::Tensor tensor(std::vector<std::int64_t> sizes, c10::ScalarType dtype) {
    return dtype == at::kLong ? at::randint(-9, 9, sizes, at::kLong) : at::randn(sizes).to(dtype);
  }

  /// Memory, a view of some, what one or two operators make of it, or what may not be made again.
  ValueId part(GraphBuilder& b, c10::ScalarType dtype, std::int64_t dimension) {
    std::vector<std::int64_t> sizes = {3 + growth_, 4, 5 + 2 * growth_};
    sizes[static_cast<std::size_t>(dimension)] = 1 + pick(4);
    const std::int64_t width = sizes[static_cast<std::size_t>(dimension)];
    const bool is_view = pick(2) == 0;
    if (is_view) sizes[static_cast<std::size_t>(dimension)] += 2;
    ValueId value = b.input(tensor(sizes, dtype));
    if (is_view) value = b.one("aten::slice.Tensor", {ref(value), val(dimension), val(1), val(1 + width)});
    switch (pick(6)) {
      case 0: return b.one("aten::neg", {ref(value)});
      case 1: return b.one("aten::add.Tensor", {ref(b.one("aten::neg", {ref(value)})), ref(b.input(tensor({1, dimension == 1 ? 1 : 4, 1}, dtype)))});
      case 2: return dtype == at::kLong ? value : b.one("aten::exp", {ref(value)});
      case 3: return b.one("aten::mul.Scalar", {ref(value), val(3)});
      default: return value;
    }
  }

  ValueId reader(GraphBuilder& b, ValueId whole, c10::ScalarType dtype) {
    if (dtype == at::kLong || pick(2) == 0) return b.one("aten::mul.Tensor", {ref(whole), ref(b.one("aten::abs", {ref(whole)}))});
    return pick(2) == 0 ? b.one("aten::softmax.int", {ref(whole), val(pick(3))}) : b.one("aten::sum.dim_IntList", {ref(whole), ints({pick(3)})});
  }

  std::mt19937_64 random_;
  std::int64_t growth_;
};

}  // namespace

TEST_CASE("random concatenations", "[joined]") {
  at::manual_seed(6);
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    GraphBuilder b;
    Cats(seed).build(b);
    INFO(seed << "\n" << graph::print(*b.graph()));
    CHECK(check(b, 20).problem == "");
  }
}

TEST_CASE("random concatenations at several sizes", "[joined]") {
  at::manual_seed(7);
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    lowering::Shared shared;
    for (std::int64_t growth : {0, 3, 1, 16}) {
      GraphBuilder b;
      Cats(seed, growth).build(b);
      INFO(seed << " growth " << growth << "\n" << graph::print(*b.graph()));
      CHECK(check(b, 20, true, &shared).problem == "");
    }
  }
}

TEST_CASE("rotary embedding is one kernel", "[joined]") {
  GraphBuilder b;
  const ValueId x = b.input(at::randn({2, 8, 6, 64})), cosine = b.input(at::randn({6, 64})), sine = b.input(at::randn({6, 64}));
  const ValueId low = b.one("aten::slice.Tensor", {ref(x), val(3), val(0), val(32)}), high = b.one("aten::slice.Tensor", {ref(x), val(3), val(32), val(64)});
  const ValueId turned = b.one("aten::cat", {refs({b.one("aten::neg", {ref(high)}), low}), val(-1)});
  b.output(b.one("aten::add.Tensor", {ref(b.one("aten::mul.Tensor", {ref(x), ref(cosine)})), ref(b.one("aten::mul.Tensor", {ref(turned), ref(sine)}))}));
  const Checked checked = check(b);
  CHECK(checked.problem == "");
  CHECK(checked.kernels == 1);
  CHECK(checked.externs == 0);
}
