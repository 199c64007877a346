#pragma once
// The scalar operators of tensor expressions and loops: one table for their names and arities.

#include <array>
#include <cstdint>
#include <string_view>

namespace dynrun::lowering {

// X(name, text, arity)
#define DYNRUN_POINT_OPERATORS(X) \
  X(kCast, "cast", 1)             \
  X(kNeg, "neg", 1)               \
  X(kAbs, "abs", 1)               \
  X(kSign, "sign", 1)             \
  X(kNot, "not", 1)               \
  X(kExp, "exp", 1)               \
  X(kExpm1, "expm1", 1)           \
  X(kLog, "log", 1)               \
  X(kLog1p, "log1p", 1)           \
  X(kLog2, "log2", 1)             \
  X(kLog10, "log10", 1)           \
  X(kSqrt, "sqrt", 1)             \
  X(kRsqrt, "rsqrt", 1)           \
  X(kSin, "sin", 1)               \
  X(kCos, "cos", 1)               \
  X(kTan, "tan", 1)               \
  X(kAtan, "atan", 1)             \
  X(kTanh, "tanh", 1)             \
  X(kErf, "erf", 1)               \
  X(kFloor, "floor", 1)           \
  X(kCeil, "ceil", 1)             \
  X(kRound, "round", 1)           \
  X(kTrunc, "trunc", 1)           \
  X(kIsNan, "isnan", 1)           \
  X(kAdd, "add", 2)               \
  X(kSub, "sub", 2)               \
  X(kMul, "mul", 2)               \
  X(kDiv, "div", 2)               \
  X(kMax, "max", 2)               \
  X(kMin, "min", 2)               \
  X(kPow, "pow", 2)               \
  X(kEq, "eq", 2)                 \
  X(kNe, "ne", 2)                 \
  X(kLt, "lt", 2)                 \
  X(kLe, "le", 2)                 \
  X(kGt, "gt", 2)                 \
  X(kGe, "ge", 2)                 \
  X(kAnd, "and", 2)               \
  X(kOr, "or", 2)                 \
  X(kXor, "xor", 2)               \
  X(kWhere, "where", 3)           \
  X(kMulAdd, "mul_add", 3)

enum class PointOp : std::uint8_t {
#define X(name, text, arity) name,
  DYNRUN_POINT_OPERATORS(X)
#undef X
};

struct PointOpInfo {
  std::string_view text;
  int arity;
};

inline constexpr std::array kPointOps{
#define X(name, text, arity) PointOpInfo{text, arity},
    DYNRUN_POINT_OPERATORS(X)
#undef X
};

inline const PointOpInfo& info(PointOp op) {
  return kPointOps[static_cast<std::size_t>(op)];
}

enum class ReduceOp : std::uint8_t { kSum, kMax, kMin };

inline std::string_view name_of(ReduceOp op) {
  return op == ReduceOp::kSum ? "sum" : op == ReduceOp::kMax ? "max" : "min";
}

}  // namespace dynrun::lowering
