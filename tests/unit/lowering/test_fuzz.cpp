// Random graphs (pointwise, reductions, views, in-place writes, concatenation, library calls), lowered and replayed.
// DYNRUN_FUZZ_SEED and DYNRUN_FUZZ_COUNT choose the graphs; a failure prints its seed and graph.

#include "graph_builder.h"

#include "graph/text.h"

#include <cstdlib>
#include <random>

using namespace dynrun;
using namespace dynrun::test;

namespace {

class Fuzzer {
 public:
  /// `growth` is added to every size but 1: the same graph at other sizes, as far as operators take them.
  explicit Fuzzer(std::uint64_t seed, std::int64_t growth = 0) : random_(seed), growth_(growth) { at::manual_seed(seed); }

  void build(GraphBuilder& b) {
    b_ = &b;
    static const std::vector<std::vector<std::int64_t>> kShapes = {{4, 6},  {6},    {4, 1},   {3, 4, 6},     {2, 3, 4, 6},
                                                                   {8, 33}, {1, 5}, {40, 50}, {2, 16, 5, 7}, {1, 8, 9, 9}};
    static const std::vector<c10::ScalarType> kTypes = {at::kFloat,  at::kFloat,    at::kFloat, at::kFloat,
                                                        at::kDouble, at::kBFloat16, at::kLong,  at::kBool};
    std::size_t inputs = 2 + pick(4);
    for (std::size_t i = 0; i < inputs; ++i) {
      c10::ScalarType dtype = kTypes[pick(kTypes.size())];
      std::vector<std::int64_t> sizes = kShapes[pick(kShapes.size())];
      for (std::int64_t& size : sizes) size += size > 1 ? growth_ : 0;
      at::Tensor tensor = (at::randn(sizes) * 2).to(dtype);
      if (tensor.dim() >= 2 && pick(4) == 0) tensor = tensor.transpose(0, 1);
      if (tensor.size(-1) > 2 && pick(5) == 0) tensor = tensor.slice(-1, 1);
      if (tensor.dim() == 4 && pick(2) == 0) tensor = tensor.contiguous(at::MemoryFormat::ChannelsLast);
      values_.push_back(b.input(tensor, pick(3) == 0));
    }
    std::size_t steps = 3 + pick(20);
    for (std::size_t i = 0; i < steps; ++i) {
      try {
        step();
      } catch (const c10::Error&) {
        // The operator does not take these arguments: nothing was recorded.
      }
    }
    for (ValueId id : values_) {
      if (pick(3) == 0) b.output(id);
    }
    b.output(values_.back());
  }

 private:
  std::size_t pick(std::size_t count) { return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_); }
  ValueId any() {
    return values_[pick(3) == 0 ? pick(values_.size()) : values_.size() - 1 - pick(std::min<std::size_t>(4, values_.size()))];
  }
  const at::Tensor& live(ValueId id) { return b_->live(id); }
  void keep(const std::vector<ValueId>& ids) {
    for (ValueId id : ids) {
      if (id != graph::kNoValue) values_.push_back(id);
    }
  }
  std::int64_t dim_of(ValueId id) {
    return live(id).dim() == 0 ? 0 : static_cast<std::int64_t>(pick(static_cast<std::size_t>(live(id).dim())));
  }

  void step() {
    switch (pick(10)) {
      case 0:
      case 1:
        return unary();
      case 2:
      case 3:
        return binary();
      case 4:
        return reduction();
      case 5:
      case 6:
        return view();
      case 7:
        return write();
      case 8:
        return join();
      default:
        return library();
    }
  }

  void unary() {
    static const std::vector<const char*> kNames = {"aten::relu", "aten::sigmoid",    "aten::tanh",        "aten::neg",
                                                    "aten::abs",  "aten::silu",       "aten::hardswish",   "aten::clone",
                                                    "aten::sin",  "aten::contiguous", "aten::logical_not", "aten::erf"};
    ValueId x = any();
    if (pick(6) == 0) {
      static const std::vector<c10::ScalarType> kTypes = {at::kFloat, at::kDouble, at::kBFloat16};
      return keep(b_->call("aten::to.dtype", {ref(x), val(static_cast<int>(kTypes[pick(kTypes.size())]))}));
    }
    if (pick(6) == 0) return keep(b_->call("aten::mul.Tensor", {ref(x), val(0.5)}));
    if (pick(8) == 0) return keep(b_->call("aten::dropout", {ref(x), val(0.5), val(false)}));
    keep(b_->call(kNames[pick(kNames.size())], {ref(x)}));
  }

  void binary() {
    static const std::vector<const char*> kNames = {"aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor",
                                                    "aten::maximum",    "aten::lt.Tensor",  "aten::minimum"};
    ValueId x = any(), y = any();
    if (pick(6) == 0) {
      ValueId mask = b_->one("aten::gt.Scalar", {ref(x), val(0)});
      values_.push_back(mask);
      return keep(b_->call("aten::where.self", {ref(mask), ref(x), ref(y)}));
    }
    keep(b_->call(kNames[pick(kNames.size())], {ref(x), ref(y)}));
  }

  void reduction() {
    ValueId x = any();
    bool floating = c10::isFloatingType(live(x).scalar_type());
    if (!floating) x = b_->one("aten::to.dtype", {ref(x), val(static_cast<int>(at::kFloat))});
    Argument dim = ints({dim_of(x)});
    switch (pick(6)) {
      case 0:
        return keep(b_->call("aten::mean.dim", {ref(x), dim, val(pick(2) == 0)}));
      case 1:
        return keep(b_->call("aten::sum.dim_IntList", {ref(x), dim, val(pick(2) == 0)}));
      case 2:
        return keep(b_->call("aten::amax", {ref(x), dim, val(pick(2) == 0)}));
      case 3:
        return keep(b_->call("aten::softmax.int", {ref(x), val(dim_of(x))}));
      case 4:
        return keep(b_->call("aten::layer_norm", {ref(x), ints({live(x).size(-1)})}));
      default:
        return keep(b_->call("aten::mean", {ref(x)}));
    }
  }

  void view() {
    ValueId x = any();
    std::int64_t dim = dim_of(x), rank = live(x).dim();
    std::int64_t size = rank == 0 ? 1 : live(x).size(dim);
    switch (pick(8)) {
      case 0:
        return keep(b_->call("aten::transpose.int", {ref(x), val(dim), val(dim_of(x))}));
      case 1:
        return keep(b_->call("aten::slice.Tensor", {ref(x), val(dim), val(static_cast<std::int64_t>(pick(2))), val(size),
                                                    val(static_cast<std::int64_t>(1 + pick(2)))}));
      case 2:
        return keep(
            b_->call("aten::select.int",
                     {ref(x), val(dim),
                      val(static_cast<std::int64_t>(pick(static_cast<std::size_t>(std::max<std::int64_t>(size, 1)))))}));
      case 3:
        return keep(b_->call("aten::unsqueeze", {ref(x), val(dim)}));
      case 4:
        return keep(b_->call("aten::reshape", {ref(x), ints({-1})}));
      case 5:
        return keep(b_->call("aten::flatten.using_ints", {ref(x), val(0), val(-1)}));
      case 6:
        return keep(b_->call("aten::chunk", {ref(x), val(2), val(dim)}));
      default:
        return keep(b_->call("aten::detach", {ref(x)}));
    }
  }

  void write() {
    ValueId x = any();
    // torch refuses to write where elements share memory, and the test could not copy such inputs.
    for (std::int64_t i = 0; i < live(x).dim(); ++i) {
      if (live(x).stride(i) == 0 && live(x).size(i) > 1) return;
    }
    if (is_parameter(x)) return;
    switch (pick(5)) {
      case 0:
        b_->call("aten::relu_", {ref(x)});
        return;
      case 1:
        b_->call("aten::mul_.Tensor", {ref(x), val(2)});
        return;
      case 2:
        b_->call("aten::add_.Tensor", {ref(x), ref(any())});
        return;
      case 3:
        b_->call("aten::copy_", {ref(x), ref(any())});
        return;
      default:
        b_->call("aten::fill_.Scalar", {ref(x), val(1)});
        return;
    }
  }

  bool is_parameter(ValueId id) {
    for (const graph::Input& input : b_->graph()->inputs) {
      if (input.kind == graph::InputKind::kParameter && live(id).is_alias_of(live(input.value))) return true;
    }
    return false;
  }

  void join() {
    ValueId x = any(), y = any();
    if (live(x).dtype() != live(y).dtype()) y = x;
    keep(b_->call(pick(2) == 0 ? "aten::cat" : "aten::stack", {refs({x, y}), val(dim_of(x))}));
  }

  void library() {
    ValueId x = any();
    if (live(x).scalar_type() != at::kFloat || live(x).dim() == 0) return unary();
    if (live(x).dim() == 4 && pick(3) != 0) return image(x);
    ValueId w = b_->input(at::randn({7, live(x).size(-1)}) * 0.3, true);
    ValueId y = b_->one("aten::linear", {ref(x), ref(w)});
    values_.push_back(y);
    if (pick(2) == 0) keep(b_->call("aten::relu", {ref(y)}));
  }

  void image(ValueId x) {
    std::int64_t channels = live(x).size(1);
    auto vector = [&] { return ref(b_->input(at::rand({channels}) + 0.5, true)); };
    switch (pick(5)) {
      case 0:
        return keep(b_->call("aten::batch_norm",
                             {ref(x), vector(), vector(), vector(), vector(), val(false), val(0.1), val(1e-5), val(true)}));
      case 1:
        return keep(b_->call("aten::group_norm", {ref(x), val(channels % 2 == 0 ? 2 : 1), vector(), vector()}));
      case 2:
        return keep(b_->call("aten::max_pool2d", {ref(x), ints({2, 2})}));
      case 3:
        return keep(b_->call("aten::adaptive_avg_pool2d", {ref(x), ints({1, 1})}));
      default:
        break;
    }
    ValueId w = b_->input(at::randn({6, channels, 3, 3}) * 0.2, true);
    ValueId y = b_->one("aten::conv2d", {ref(x), ref(w), val({}), ints({1, 1}), ints({1, 1}), ints({1, 1}), val(1)});
    values_.push_back(y);
    if (pick(2) == 0) b_->call("aten::relu_", {ref(y)});
    if (pick(2) == 0) keep(b_->call("aten::add.Tensor", {ref(y), ref(any())}));
  }

  std::mt19937_64 random_;
  std::int64_t growth_;
  GraphBuilder* b_ = nullptr;
  std::vector<ValueId> values_;
};

}  // namespace

namespace {

struct Seeds {
  std::uint64_t first = 1, count = 0;
};

Seeds chosen_seeds(std::uint64_t usual) {
  const char* seed_text = std::getenv("DYNRUN_FUZZ_SEED");
  const char* count_text = std::getenv("DYNRUN_FUZZ_COUNT");
  return {seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 1,
          count_text != nullptr ? std::strtoull(count_text, nullptr, 10) : seed_text != nullptr ? 1 : usual};
}

}  // namespace

TEST_CASE("random graphs at several sizes", "[fuzz]") {
  const auto [first, count] = chosen_seeds(20);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    lowering::Shared shared;
    // The second one makes numbers arguments, the later ones use what it made or find that more of them differ.
    for (std::int64_t growth : {0, 3, 1, 16, 3, 40}) {
      GraphBuilder b;
      Fuzzer(seed, growth).build(b);
      INFO("DYNRUN_FUZZ_SEED=" << seed << " growth " << growth << "\n" << graph::print(*b.graph()));
      CHECK(check(b, 20, seed % 5 != 0, &shared).problem == "");
    }
  }
}

TEST_CASE("random graphs", "[fuzz]") {
  const auto [first, count] = chosen_seeds(60);
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    GraphBuilder b;
    Fuzzer(seed).build(b);
    INFO("DYNRUN_FUZZ_SEED=" << seed << "\n" << graph::print(*b.graph()));
    CHECK(check(b, 20, seed % 5 != 0).problem == "");
  }
}
