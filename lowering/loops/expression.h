#pragma once
// Tensor expressions: what one operator computes, element by element, over the values that it reads.
//
// Sizes broadcast from the right, as in torch. Half-precision values are computed in float32: a `cast` to the half type rounds,
// and the rounded number goes on as a float. No other operator may have a half-precision result.

#include "graph/graph.h"
#include "lowering/loops/operators.h"

#include <memory>

namespace dynrun::lowering {

enum class ExpressionKind : std::uint8_t { kLoad, kConstant, kPoint, kReduce, kIndex };

struct Expression;
using Expr = std::shared_ptr<const Expression>;
using Sizes = std::vector<std::int64_t>;

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  c10::ScalarType dtype = c10::ScalarType::Float;
  Sizes sizes;
  std::vector<Expr> arguments;

  PointOp op = PointOp::kCast;       // kPoint
  ReduceOp reduce = ReduceOp::kSum;  // kReduce: over `reduced`; the sizes keep these dimensions, as 1
  std::vector<bool> reduced;

  graph::ValueId value = graph::kNoValue;  // kLoad: element i of `value` is at offset + sum(i[d] * strides[d])
  Sizes strides;
  std::int64_t offset = 0;
  // A load with an argument is made where that holds; elsewhere its value is any.
  bool natural = true;  // sizes and strides are the value's own: its definition may stand here instead

  double number = 0;  // kConstant (integer dtypes use `integer`)
  std::int64_t integer = 0;
  int dimension = 0;  // kIndex: the position along this dimension of `sizes`, as int64
};

/// What a node's result is: `expression`, written with `strides` (over the expression's sizes) from `offset` on.
struct Definition {
  graph::ValueId value = graph::kNoValue;
  Expr expression;
  Sizes strides;
  std::int64_t offset = 0;
  /// The expression has the value's own sizes: readers may use it instead of the buffer.
  bool natural = true;
};

Expr load(graph::ValueId value, const graph::TensorType& type);
Expr load_as(graph::ValueId value, c10::ScalarType dtype, Sizes sizes, Sizes strides, std::int64_t offset);
/// The same where `condition` holds (null: everywhere), which alone has to lie in the value; elsewhere any number.
Expr load_where(Expr condition, graph::ValueId value, c10::ScalarType dtype, Sizes sizes, Sizes strides, std::int64_t offset);
Expr constant(double number, c10::ScalarType dtype);
Expr integer_constant(std::int64_t number, c10::ScalarType dtype);
Expr index_of(Sizes sizes, int dimension);
Expr point(PointOp op, c10::ScalarType dtype, std::vector<Expr> arguments);
Expr cast(Expr argument, c10::ScalarType dtype);
Expr reduce(ReduceOp op, Expr argument, std::vector<bool> reduced);

/// Right-aligned broadcast of two shapes; they must fit.
Sizes broadcast(const Sizes& a, const Sizes& b);

/// The type that arithmetic on `dtype` happens in: float32 for the half types.
c10::ScalarType compute_type(c10::ScalarType dtype);

// Arithmetic of one dtype (that of the first operand).
Expr operator+(const Expr& a, const Expr& b);
Expr operator-(const Expr& a, const Expr& b);
Expr operator*(const Expr& a, const Expr& b);
Expr operator/(const Expr& a, const Expr& b);
Expr unary(PointOp op, const Expr& a);
Expr binary(PointOp op, const Expr& a, const Expr& b);
Expr compare(PointOp op, const Expr& a, const Expr& b);
Expr where(const Expr& condition, const Expr& a, const Expr& b);
/// a * b + c, the product unrounded where the machine can: what one operator adds up.
Expr mul_add(const Expr& a, const Expr& b, const Expr& c);
/// A constant of the dtype of `like`.
Expr number(double value, const Expr& like);

}  // namespace dynrun::lowering
