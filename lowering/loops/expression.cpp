#include "lowering/loops/expression.h"

namespace dynrun::lowering {

Expr load(graph::ValueId value, const graph::TensorType& type) {
  auto out = std::make_shared<Expression>();
  out->kind = ExpressionKind::kLoad;
  out->dtype = type.dtype;
  out->sizes = type.sizes;
  out->strides = type.strides;
  out->value = value;
  return out;
}

Expr load_as(graph::ValueId value, c10::ScalarType dtype, Sizes sizes, Sizes strides, std::int64_t offset) {
  return load_where(nullptr, value, dtype, std::move(sizes), std::move(strides), offset);
}

Expr load_where(Expr condition, graph::ValueId value, c10::ScalarType dtype, Sizes sizes, Sizes strides, std::int64_t offset) {
  auto out = std::make_shared<Expression>();
  out->kind = ExpressionKind::kLoad;
  out->dtype = dtype;
  out->sizes = std::move(sizes);
  out->strides = std::move(strides);
  out->offset = offset;
  out->value = value;
  out->natural = false;
  if (condition) out->arguments = {std::move(condition)};
  return out;
}

Expr constant(double number, c10::ScalarType dtype) {
  if (dtype == c10::ScalarType::Bool) return integer_constant(number != 0, dtype);
  if (!c10::isFloatingType(dtype)) return integer_constant(static_cast<std::int64_t>(number), dtype);
  auto out = std::make_shared<Expression>();
  out->dtype = compute_type(dtype);
  out->number = number;
  return out;
}

Expr integer_constant(std::int64_t number, c10::ScalarType dtype) {
  if (c10::isFloatingType(dtype)) return constant(static_cast<double>(number), dtype);
  auto out = std::make_shared<Expression>();
  out->dtype = dtype;
  out->integer = dtype == c10::ScalarType::Bool ? (number != 0) : number;
  return out;
}

Expr index_of(Sizes sizes, int dimension) {
  auto out = std::make_shared<Expression>();
  out->kind = ExpressionKind::kIndex;
  out->dtype = c10::ScalarType::Long;
  out->sizes = std::move(sizes);
  out->dimension = dimension;
  return out;
}

Sizes broadcast(const Sizes& a, const Sizes& b) {
  const Sizes& longer = a.size() >= b.size() ? a : b;
  const Sizes& shorter = a.size() >= b.size() ? b : a;
  Sizes out = longer;
  std::size_t shift = longer.size() - shorter.size();
  for (std::size_t i = 0; i < shorter.size(); ++i) {
    if (out[i + shift] == 1) out[i + shift] = shorter[i];
    TORCH_INTERNAL_ASSERT(shorter[i] == 1 || out[i + shift] == shorter[i], "shapes do not broadcast");
  }
  return out;
}

Expr point(PointOp op, c10::ScalarType dtype, std::vector<Expr> arguments) {
  auto out = std::make_shared<Expression>();
  out->kind = ExpressionKind::kPoint;
  out->op = op;
  out->dtype = dtype;
  for (const Expr& argument : arguments) out->sizes = broadcast(out->sizes, argument->sizes);
  out->arguments = std::move(arguments);
  return out;
}

Expr cast(Expr argument, c10::ScalarType dtype) {
  if (argument->dtype == dtype) return argument;
  if (argument->kind == ExpressionKind::kConstant && compute_type(dtype) == dtype) {
    if (c10::isFloatingType(argument->dtype)) return constant(argument->number, dtype);
    return integer_constant(argument->integer, dtype);
  }
  // Widening a half type and coming back changes nothing.
  bool widened =
      argument->kind == ExpressionKind::kPoint && argument->op == PointOp::kCast && argument->dtype == c10::ScalarType::Float;
  if (widened && argument->arguments[0]->dtype == dtype && compute_type(dtype) != dtype) return argument->arguments[0];
  return point(PointOp::kCast, dtype, {std::move(argument)});
}

Expr reduce(ReduceOp op, Expr argument, std::vector<bool> reduced) {
  auto out = std::make_shared<Expression>();
  out->kind = ExpressionKind::kReduce;
  out->reduce = op;
  out->dtype = argument->dtype;
  out->sizes = argument->sizes;
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    if (reduced[i]) out->sizes[i] = 1;
  }
  out->reduced = std::move(reduced);
  out->arguments = {std::move(argument)};
  return out;
}

c10::ScalarType compute_type(c10::ScalarType dtype) {
  return dtype == c10::ScalarType::Half || dtype == c10::ScalarType::BFloat16 ? c10::ScalarType::Float : dtype;
}

Expr binary(PointOp op, const Expr& a, const Expr& b) {
  return point(op, a->dtype, {a, b});
}
Expr unary(PointOp op, const Expr& a) {
  return point(op, a->dtype, {a});
}
Expr operator+(const Expr& a, const Expr& b) {
  return binary(PointOp::kAdd, a, b);
}
Expr operator-(const Expr& a, const Expr& b) {
  return binary(PointOp::kSub, a, b);
}
Expr operator*(const Expr& a, const Expr& b) {
  return binary(PointOp::kMul, a, b);
}
Expr operator/(const Expr& a, const Expr& b) {
  return binary(PointOp::kDiv, a, b);
}
Expr compare(PointOp op, const Expr& a, const Expr& b) {
  return point(op, c10::ScalarType::Bool, {a, b});
}
Expr where(const Expr& condition, const Expr& a, const Expr& b) {
  return point(PointOp::kWhere, a->dtype, {condition, a, b});
}
Expr mul_add(const Expr& a, const Expr& b, const Expr& c) { return point(PointOp::kMulAdd, a->dtype, {a, b, c}); }
Expr number(double value, const Expr& like) {
  return constant(value, like->dtype);
}

}  // namespace dynrun::lowering
