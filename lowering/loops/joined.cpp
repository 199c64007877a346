#include "lowering/loops/joined.h"

#include "lowering/cat_kernel.h"

namespace dynrun::lowering {
namespace {

using c10::ScalarType;

/// Where along a dimension of `whole` a part lies.
struct Stretch {
  const Sizes& whole;
  std::size_t dimension;
  std::int64_t first, last;

  Expr before(std::int64_t place) const { return compare(PointOp::kLt, index_of(whole, static_cast<int>(dimension)), integer_constant(place, ScalarType::Long)); }
  /// Whether a place is the part's; null: every place.
  Expr condition() const {
    const Expr from = first > 0 ? unary(PointOp::kNot, before(first)) : nullptr, to = last < whole[dimension] ? before(last) : nullptr;
    return !from ? to : !to ? from : binary(PointOp::kAnd, from, to);
  }
};

/// The part's expression over the places of the whole.
Expr spread(const Expr& expression, const Stretch& at) {
  const std::size_t rank = at.whole.size(), own = expression->sizes.size();
  auto made = std::make_shared<Expression>(*expression);
  for (Expr& argument : made->arguments) argument = spread(argument, at);
  if (own + at.dimension < rank) return made;  // broadcasts along the dimension
  const std::size_t dimension = own + at.dimension - rank;
  const bool varies = made->sizes[dimension] != 1 || at.last - at.first == 1;
  if (varies) made->sizes[dimension] = at.whole[at.dimension];
  if (made->kind == ExpressionKind::kIndex && made->dimension == static_cast<int>(dimension) && at.first != 0) {
    return binary(PointOp::kSub, made, integer_constant(at.first, ScalarType::Long));
  }
  if (made->kind != ExpressionKind::kLoad) return made;
  made->natural = false;
  if (varies) made->offset -= at.first * made->strides[dimension];
  if (const Expr condition = varies ? at.condition() : nullptr) made->arguments = {condition};
  return made;
}

}  // namespace

std::optional<Definition> joined(const graph::Graph& graph, const graph::Node& node, const std::function<Expr(graph::ValueId)>& part) {
  const std::vector<graph::ValueId> parts = concatenated(node);
  if (parts.size() < 2 || node.op.operator_name().name == "aten::stack" || !node.arguments[1].is_constant() || !node.arguments[1].constant().isInt()) return std::nullopt;
  const graph::TensorType& whole = graph.type_of(node.outputs[0]);
  const std::int64_t rank = static_cast<std::int64_t>(whole.sizes.size()), asked = node.arguments[1].constant().toInt();
  const auto dimension = static_cast<std::size_t>(asked < 0 ? asked + rank : asked);
  std::vector<Expr> pieces;
  std::vector<std::int64_t> ends;
  std::int64_t place = 0;
  for (graph::ValueId value : parts) {
    const graph::TensorType& type = graph.type_of(value);
    if (type.dtype != whole.dtype || type.device != whole.device || type.sizes.size() != whole.sizes.size() || type.element_count() == 0) return std::nullopt;
    const Expr piece = part(value);
    if (!piece) return std::nullopt;
    const Stretch at{whole.sizes, dimension, place, place + type.sizes[dimension]};
    pieces.push_back(cast(spread(piece, at), compute_type(whole.dtype)));
    ends.push_back(place = at.last);
  }
  Expr all = pieces.back();
  for (std::size_t i = pieces.size() - 1; i-- > 0;) all = where(Stretch{whole.sizes, dimension, 0, ends[i]}.condition(), pieces[i], all);
  return Definition{node.outputs[0], cast(all, whole.dtype), whole.strides, 0, true};
}

}  // namespace dynrun::lowering
