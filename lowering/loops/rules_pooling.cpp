// Poolings on a GPU: the elements of a window stand side by side in one expression. On a CPU libtorch's kernels serve them.

#include "lowering/loops/decompose.h"

#include <limits>

namespace dynrun::lowering {
namespace {

using c10::ScalarType;

constexpr std::int64_t kMostElements = 32;  // of a window: registers and compile time grow with them

/// One dimension of a window as it moves over the input.
struct Side {
  std::int64_t input = 0, output = 0, kernel = 0, stride = 0, padding = 0, dilation = 1;

  /// How far from the window's first element the element is, in elements of the input; negative in the padding.
  std::int64_t offset(std::int64_t element) const { return element * dilation - padding; }
  /// The first and the last window whose element lies in the input.
  std::int64_t first(std::int64_t element) const { return std::max<std::int64_t>(0, (stride - 1 - offset(element)) / stride); }
  std::int64_t last(std::int64_t element) const { return std::min(output - 1, input - 1 < offset(element) ? -1 : (input - 1 - offset(element)) / stride); }
};

/// A list of one number or two, as torch's poolings take them.
std::pair<std::int64_t, std::int64_t> two(const std::vector<std::int64_t>& numbers, std::pair<std::int64_t, std::int64_t> otherwise) {
  if (numbers.empty()) return otherwise;
  return {numbers.front(), numbers.back()};
}

/// The windows of a pooling over the last two dimensions.
class Windows {
 public:
  Windows(RuleContext& c, Side rows, Side columns) : c_(c), rows_(rows), columns_(columns), sizes_(c.out().sizes) {
    const graph::TensorType& type = c.type("self");
    if (type.sizes.size() != 3 && type.sizes.size() != 4) throw NotCovered{};
    if (!c10::isFloatingType(type.dtype) || type.element_count() == 0 || c.out().element_count() == 0) throw NotCovered{};
    if (rows.kernel * columns.kernel > kMostElements || rows.stride < 1 || columns.stride < 1) throw NotCovered{};
  }

  /// visit(element, whether it lies in the input: null where all of this place do) for each place in the window.
  template <typename Visit>
  void visit(const Visit& visit) const {
    for (std::int64_t i = 0; i < rows_.kernel; ++i) {
      for (std::int64_t j = 0; j < columns_.kernel; ++j) {
        const Expr inside = both(within(rows_, i, -2), within(columns_, j, -1));
        visit(element(i, j, inside), inside);
      }
    }
  }

 private:
  std::size_t dimension(int from_end) const { return sizes_.size() - static_cast<std::size_t>(-from_end); }

  static Expr both(const Expr& a, const Expr& b) { return !a ? b : !b ? a : binary(PointOp::kAnd, a, b); }

  /// Where the output's place along a dimension has this element of its window in the input; null: everywhere.
  Expr within(const Side& side, std::int64_t element, int from_end) const {
    const Expr place = index_of(sizes_, static_cast<int>(dimension(from_end)));
    auto limit = [](std::int64_t number) { return integer_constant(number, ScalarType::Long); };
    Expr from, to;
    if (side.first(element) > 0) from = compare(PointOp::kGe, place, limit(side.first(element)));
    if (side.last(element) < side.output - 1) to = compare(PointOp::kLe, place, limit(side.last(element)));
    return both(from, to);
  }

  Expr element(std::int64_t i, std::int64_t j, const Expr& inside) const {
    const graph::TensorType& type = c_.type("self");
    Sizes strides = type.strides;
    const std::int64_t row = strides[dimension(-2)], column = strides[dimension(-1)];
    strides[dimension(-2)] = row * rows_.stride;
    strides[dimension(-1)] = column * columns_.stride;
    const std::int64_t offset = rows_.offset(i) * row + columns_.offset(j) * column;
    return cast(load_where(inside, c_.value("self"), type.dtype, sizes_, std::move(strides), offset), compute_type(type.dtype));
  }

  RuleContext& c_;
  Side rows_, columns_;
  Sizes sizes_;
};

std::pair<Side, Side> sides_of(const RuleContext& c) {
  const graph::TensorType& in = c.type("self");
  const Sizes& out = c.out().sizes;
  if (in.sizes.size() < 3 || out.size() != in.sizes.size()) throw NotCovered{};
  const auto kernel = two(c.integers("kernel_size"), {0, 0}), stride = two(c.integers("stride"), kernel), padding = two(c.integers("padding"), {0, 0});
  const auto dilation = c.find("dilation") != nullptr ? two(c.integers("dilation"), {1, 1}) : std::pair<std::int64_t, std::int64_t>{1, 1};
  const std::size_t last = out.size() - 1;
  return {{in.sizes[last - 1], out[last - 1], kernel.first, stride.first, padding.first, dilation.first},
          {in.sizes[last], out[last], kernel.second, stride.second, padding.second, dilation.second}};
}

void max_pool(RuleContext& c) {
  if (!c.program().device.is_cuda()) throw NotCovered{};
  const auto [rows, columns] = sides_of(c);
  Expr most;
  Windows(c, rows, columns).visit([&](const Expr& element, const Expr& inside) {
    const Expr lowest = number(-std::numeric_limits<double>::infinity(), element);
    const Expr one = inside ? where(inside, element, lowest) : element;
    most = most ? binary(PointOp::kMax, most, one) : one;
  });
  c.define(most);
}

/// The mean of each window; `counts` as the divisor says how many of its elements lie in the input.
void average(RuleContext& c, const Side& rows, const Side& columns, std::optional<double> divisor) {
  Expr sum, count;
  Windows(c, rows, columns).visit([&](const Expr& element, const Expr& inside) {
    const Expr one = inside ? where(inside, element, number(0, element)) : element;
    const Expr counted = inside ? where(inside, number(1, element), number(0, element)) : number(1, element);
    sum = sum ? sum + one : one;
    count = count ? count + counted : counted;
  });
  c.define(sum / (divisor ? number(*divisor, sum) : count));
}

void avg_pool(RuleContext& c) {
  if (!c.program().device.is_cuda()) throw NotCovered{};
  const auto [rows, columns] = sides_of(c);
  // A window that hangs over the padding's end counts what lies before it.
  auto hangs_over = [](const Side& side) { return (side.output - 1) * side.stride + side.kernel > side.input + 2 * side.padding; };
  std::optional<double> divisor;
  if (c.has("divisor_override")) {
    divisor = c.number("divisor_override");
  } else if (c.flag("count_include_pad", true)) {
    if (hangs_over(rows) || hangs_over(columns)) throw NotCovered{};
    divisor = static_cast<double>(rows.kernel * columns.kernel);
  }
  average(c, rows, columns, divisor);
}

void adaptive_avg_pool(RuleContext& c) {
  if (!c.program().device.is_cuda()) throw NotCovered{};
  const graph::TensorType& type = c.type("self");
  const Sizes& out = c.out().sizes;
  if (type.sizes.size() < 3 || !c10::isFloatingType(type.dtype) || type.element_count() == 0 || c.out().element_count() == 0) throw NotCovered{};
  const std::size_t last = out.size() - 1;
  const std::int64_t height = type.sizes[last - 1], width = type.sizes[last];
  if (out[last - 1] == 1 && out[last] == 1) {
    const std::vector<bool> mask = dimension_mask({-2, -1}, type.sizes.size());
    const Expr total = reduce(ReduceOp::kSum, c.operand("self", compute_type(type.dtype)), mask);
    return c.define_reduced(total / number(static_cast<double>(height * width), total), mask);
  }
  if (height % out[last - 1] != 0 || width % out[last] != 0) throw NotCovered{};
  const std::int64_t rows = height / out[last - 1], columns = width / out[last];
  if (rows == 1 && columns == 1) return c.define(c.tensor("self"));
  average(c, {height, out[last - 1], rows, rows}, {width, out[last], columns, columns}, static_cast<double>(rows * columns));
}

}  // namespace

const RuleTable& pooling_rules() {
  static const RuleTable table = {
      {"aten::max_pool2d", max_pool},
      {"aten::max_pool2d_with_indices", max_pool},
      {"aten::avg_pool2d", avg_pool},
      {"aten::adaptive_avg_pool2d", adaptive_avg_pool},
      {"aten::_adaptive_avg_pool2d", adaptive_avg_pool},
  };
  return table;
}

}  // namespace dynrun::lowering
