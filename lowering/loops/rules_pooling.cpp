// Poolings on a GPU: the elements of a window stand side by side in one expression. On a CPU libtorch's kernels serve them.

#include "lowering/loops/windows.h"

#include <limits>

namespace dynrun::lowering {
namespace {

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
  if (!c.program().for_gpu()) throw NotCovered{};
  const auto [rows, columns] = sides_of(c);
  Expr most;
  Windows(c, "self", rows, columns).visit([&](const Windows::Place& place) {
    const Expr lowest = number(-std::numeric_limits<double>::infinity(), place.element);
    const Expr one = place.inside ? where(place.inside, place.element, lowest) : place.element;
    most = most ? binary(PointOp::kMax, most, one) : one;
  });
  c.define(most);
}

/// The mean of each window; `counts` as the divisor says how many of its elements lie in the input.
void average(RuleContext& c, const Side& rows, const Side& columns, std::optional<double> divisor) {
  Expr sum, count;
  Windows(c, "self", rows, columns).visit([&](const Windows::Place& place) {
    const auto& [row, column, element, inside] = place;
    const Expr one = inside ? where(inside, element, number(0, element)) : element;
    const Expr counted = inside ? where(inside, number(1, element), number(0, element)) : number(1, element);
    sum = sum ? sum + one : one;
    count = count ? count + counted : counted;
  });
  c.define(sum / (divisor ? number(*divisor, sum) : count));
}

void avg_pool(RuleContext& c) {
  if (!c.program().for_gpu()) throw NotCovered{};
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
  if (!c.program().for_gpu()) throw NotCovered{};
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
