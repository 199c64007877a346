#include "lowering/loops/windows.h"

namespace dynrun::lowering {
namespace {

using c10::ScalarType;

Expr both(const Expr& a, const Expr& b) { return !a ? b : !b ? a : binary(PointOp::kAnd, a, b); }

}  // namespace

std::pair<std::int64_t, std::int64_t> two(const std::vector<std::int64_t>& numbers, std::pair<std::int64_t, std::int64_t> otherwise) {
  if (numbers.empty()) return otherwise;
  return {numbers.front(), numbers.back()};
}

Windows::Windows(RuleContext& c, std::string name, Side rows, Side columns) : c_(c), name_(std::move(name)), rows_(rows), columns_(columns), sizes_(c.out().sizes) {
  const graph::TensorType& type = c.type(name_);
  if (type.sizes.size() != 3 && type.sizes.size() != 4) throw NotCovered{};
  if (!c10::isFloatingType(type.dtype) || type.element_count() == 0 || c.out().element_count() == 0) throw NotCovered{};
  if (rows.kernel * columns.kernel > kMostOfWindow || rows.stride < 1 || columns.stride < 1) throw NotCovered{};
}

void Windows::visit(const std::function<void(const Place&)>& visit) const {
  for (std::int64_t i = 0; i < rows_.kernel; ++i) {
    for (std::int64_t j = 0; j < columns_.kernel; ++j) {
      const Expr inside = both(within(rows_, i, -2), within(columns_, j, -1));
      visit({i, j, element(i, j, inside), inside});
    }
  }
}

/// Where the output's place along a dimension has this element of its window in the input; null: everywhere.
Expr Windows::within(const Side& side, std::int64_t element, int from_end) const {
  const Expr place = index_of(sizes_, static_cast<int>(dimension(from_end)));
  auto limit = [](std::int64_t number) { return integer_constant(number, ScalarType::Long); };
  Expr from, to;
  if (side.first(element) > 0) from = compare(PointOp::kGe, place, limit(side.first(element)));
  if (side.last(element) < side.output - 1) to = compare(PointOp::kLe, place, limit(side.last(element)));
  return both(from, to);
}

Expr Windows::element(std::int64_t i, std::int64_t j, const Expr& inside) const {
  const graph::TensorType& type = c_.type(name_);
  Sizes strides = type.strides;
  const std::int64_t row = strides[dimension(-2)], column = strides[dimension(-1)];
  strides[dimension(-2)] = row * rows_.stride;
  strides[dimension(-1)] = column * columns_.stride;
  const std::int64_t offset = rows_.offset(i) * row + columns_.offset(j) * column;
  return cast(load_where(inside, c_.value(name_), type.dtype, sizes_, std::move(strides), offset), compute_type(type.dtype));
}

}  // namespace dynrun::lowering
