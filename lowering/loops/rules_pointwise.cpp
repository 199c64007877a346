#include "lowering/loops/decompose.h"

#include <ATen/ops/gelu.h>
#include <ATen/ops/tensor.h>

#include <cmath>
#include <limits>

namespace dynrun::lowering {
namespace {

using c10::ScalarType;

/// The type that a result is computed in.
ScalarType work(const RuleContext& c) {
  return compute_type(c.out().dtype);
}

Expr self(const RuleContext& c) {
  return c.operand("self", work(c));
}

void need_float(const RuleContext& c) {
  if (!c10::isFloatingType(c.out().dtype)) throw NotCovered{};
}

template <PointOp op>
void float_unary(RuleContext& c) {
  need_float(c);
  c.define(unary(op, self(c)));
}

template <PointOp op>
void same_unary(RuleContext& c) {
  if (c.out().dtype == ScalarType::Bool && op != PointOp::kNot) throw NotCovered{};
  c.define(unary(op, self(c)));
}

/// floor, ceil, round, trunc: integers are their own.
template <PointOp op>
void round_unary(RuleContext& c) {
  if (c.has("decimals") && c.integer("decimals") != 0) throw NotCovered{};
  c.define(c10::isFloatingType(c.out().dtype) ? unary(op, self(c)) : self(c));
}

/// An operand of a binary operator: rounded to the common dtype first, as torch converts operands.
Expr common(const RuleContext& c, std::string_view name, ScalarType dtype) {
  return cast(cast(c.operand(name, dtype), dtype), compute_type(dtype));
}

/// The second factor or divisor: a number or 0-d tensor is used as it is, in float32.
Expr scalar_or_common(const RuleContext& c, std::string_view name, ScalarType dtype) {
  return !c.is_tensor(name) || c.type(name).sizes.empty() ? c.operand(name, dtype) : common(c, name, dtype);
}

template <PointOp op>
void arithmetic(RuleContext& c) {
  ScalarType promoted = c.promoted({"self", "other"}), dtype = compute_type(promoted);
  if (dtype == ScalarType::Bool && op == PointOp::kSub) throw NotCovered{};
  Expr a = common(c, "self", promoted);
  Expr b = op == PointOp::kMul ? scalar_or_common(c, "other", promoted) : common(c, "other", promoted);
  if constexpr (op == PointOp::kAdd || op == PointOp::kSub) {
    if (c.has("alpha")) {
      const c10::IValue& alpha = c.scalar("alpha");
      bool one = alpha.isInt() ? alpha.toInt() == 1 : alpha.toScalar().toDouble() == 1.0;
      if (!one && dtype == ScalarType::Bool) throw NotCovered{};
      // Of half types libtorch rounds the product where it computes one by one, at a row's end say, and not where it takes vectors.
      if (!one && c10::isReducedFloatingType(promoted) && c.out().device.is_cpu()) throw NotCovered{};
      if (!one) b = b * c.operand("alpha", dtype);
    }
  }
  if (dtype == ScalarType::Bool) {
    c.define(binary(op == PointOp::kMul ? PointOp::kAnd : PointOp::kOr, a, b));
    return;
  }
  c.define(binary(op, a, b));
}

void rsub(RuleContext& c) {
  ScalarType dtype = c.promoted({"self", "other"});
  if (dtype == ScalarType::Bool || c.number("alpha", 1) != 1) throw NotCovered{};
  c.define(common(c, "other", dtype) - common(c, "self", dtype));
}

void divide(RuleContext& c) {
  if (c.has("rounding_mode")) throw NotCovered{};
  need_float(c);
  ScalarType dtype = c.promoted({"self", "other"});
  if (!c10::isFloatingType(dtype)) dtype = c.out().dtype;
  c.define(common(c, "self", dtype) / scalar_or_common(c, "other", dtype));
}

template <PointOp op>
void extremum(RuleContext& c) {
  ScalarType dtype = c.promoted({"self", "other"});
  c.define(binary(op, common(c, "self", dtype), common(c, "other", dtype)));
}

/// max.other and min.other share their names with the reductions.
template <PointOp op>
void comparison(RuleContext& c) {
  ScalarType dtype = c.promoted({"self", "other"});
  c.define(compare(op, common(c, "self", dtype), common(c, "other", dtype)));
}

template <PointOp op>
void bitwise(RuleContext& c) {
  ScalarType dtype = c.promoted({"self", "other"});
  if (c10::isFloatingType(dtype)) throw NotCovered{};
  c.define(binary(op, c.operand("self", dtype), c.operand("other", dtype)));
}

template <PointOp op>
void logical(RuleContext& c) {
  c.define(binary(op, c.operand("self", ScalarType::Bool), c.operand("other", ScalarType::Bool)));
}

void logical_not(RuleContext& c) {
  c.define(unary(PointOp::kNot, c.operand("self", ScalarType::Bool)));
}

void bitwise_not(RuleContext& c) {
  if (c10::isFloatingType(c.out().dtype)) throw NotCovered{};
  c.define(unary(PointOp::kNot, self(c)));
}

void relu(RuleContext& c) {
  if (c.out().dtype == ScalarType::Bool) throw NotCovered{};
  Expr x = self(c);
  c.define(binary(PointOp::kMax, x, number(0, x)));
}

Expr clamp(Expr x, double low, double high) {
  x = binary(PointOp::kMax, x, number(low, x));
  return binary(PointOp::kMin, x, number(high, x));
}

void relu6(RuleContext& c) {
  need_float(c);
  c.define(clamp(self(c), 0, 6));
}

void hardtanh(RuleContext& c) {
  need_float(c);
  c.define(clamp(self(c), c.number("min_val", -1), c.number("max_val", 1)));
}

void clamp_rule(RuleContext& c) {
  ScalarType dtype = compute_type(c.promoted({"self", "min", "max"}));
  if (dtype == ScalarType::Bool) throw NotCovered{};
  Expr x = c.operand("self", dtype);
  auto is_nan = [&](std::string_view name) { return !c.is_tensor(name) && c.has(name) && std::isnan(c.number(name)); };
  if (c.has("min") && c.has("max") && (is_nan("min") || is_nan("max"))) throw NotCovered{};
  auto is_number = [&](std::string_view name) { return !c.is_tensor(name) || c.type(name).number; };
  // A single number that is NaN bounds nothing.
  if (!c.has("max") && is_number("min")) {
    const Expr low = c.fitting("min", dtype);
    return c.define(where(compare(PointOp::kLt, x, low), low, x));
  }
  if (!c.has("min") && is_number("max")) {
    const Expr high = c.fitting("max", dtype);
    return c.define(where(compare(PointOp::kGt, x, high), high, x));
  }
  if (c.has("min")) x = binary(PointOp::kMax, x, c.fitting("min", dtype));
  if (c.has("max")) x = binary(PointOp::kMin, x, c.fitting("max", dtype));
  c.define(x);
}

Expr sigmoid(const Expr& x) {
  return number(1, x) / (number(1, x) + unary(PointOp::kExp, unary(PointOp::kNeg, x)));
}

void sigmoid_rule(RuleContext& c) {
  need_float(c);
  c.define(sigmoid(self(c)));
}

void silu(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(x / (number(1, x) + unary(PointOp::kExp, unary(PointOp::kNeg, x))));
}

void hardsigmoid(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(clamp(x + number(3, x), 0, 6) / number(6, x));
}

void hardswish(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(x * clamp(x + number(3, x), 0, 6) / number(6, x));
}

void leaky_relu(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(where(compare(PointOp::kGt, x, number(0, x)), x, x * c.fitting("negative_slope", x->dtype)));
}

void elu(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  double alpha = c.number("alpha", 1), scale = c.number("scale", 1), input_scale = c.number("input_scale", 1);
  Expr low = unary(PointOp::kExpm1, x * number(input_scale, x)) * number(alpha * scale, x);
  c.define(where(compare(PointOp::kLe, x, number(0, x)), low, x * number(scale, x)));
}

Expr softplus(const Expr& x, double beta, double threshold) {
  Expr scaled = x * number(beta, x);
  Expr soft = unary(PointOp::kLog1p, unary(PointOp::kExp, scaled)) / number(beta, x);
  return where(compare(PointOp::kGt, scaled, number(threshold, x)), x, soft);
}

void softplus_rule(RuleContext& c) {
  need_float(c);
  c.define(softplus(self(c), c.number("beta", 1), c.number("threshold", 20)));
}

void mish(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(x * unary(PointOp::kTanh, unary(PointOp::kLog1p, unary(PointOp::kExp, x))));
}

/// How eager's gelu of dense tensors treats what is very large or a signed zero: oneDNN, which computes it on CPUs for some types, has a
/// way of its own for each kind of processor.
enum class GeluForm { kPlain, kHalves, kWhole };

GeluForm asked_form(ScalarType dtype) {
  const at::Tensor given = at::gelu(at::tensor({INFINITY, -0.0f}, at::kFloat).to(dtype)).to(at::kFloat);
  const float* values = given.const_data_ptr<float>();
  if (std::isnan(values[0])) return GeluForm::kWhole;
  return std::signbit(values[1]) ? GeluForm::kPlain : GeluForm::kHalves;
}

GeluForm gelu_form(ScalarType dtype) {
  static const GeluForm of_float = asked_form(ScalarType::Float), of_bfloat16 = asked_form(ScalarType::BFloat16);
  return dtype == ScalarType::Float ? of_float : dtype == ScalarType::BFloat16 ? of_bfloat16 : GeluForm::kPlain;
}

void gelu(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  const c10::IValue& form = c.at("approximate").constant();
  if (form.isString() && form.toStringRef() == "tanh") {
    constexpr double kBeta = M_SQRT2 * M_2_SQRTPI * 0.5;
    Expr inner = (x + x * x * x * number(0.044715, x)) * number(kBeta, x);
    c.define(number(0.5, x) * x * (number(1, x) + unary(PointOp::kTanh, inner)));
    return;
  }
  const Expr share = unary(PointOp::kErf, x * number(M_SQRT1_2, x));
  const Expr half = x * number(0.5, x);
  const bool dense = c.out().device.is_cpu() && c.out().element_count() > 1 && c.type("self").is_contiguous();
  switch (dense ? gelu_form(c.out().dtype) : GeluForm::kPlain) {
    case GeluForm::kPlain: return c.define(half * (number(1, x) + share));
    case GeluForm::kHalves: return c.define(half * share + half);
    // x - x is NaN for infinity and zero elsewhere.
    case GeluForm::kWhole: return c.define(x * (number(1, x) + share + (x - x)) * number(0.5, x));
  }
}

void rsqrt(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(unary(PointOp::kRsqrt, x));
}

void reciprocal(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(number(1, x) / x);
}

void square(RuleContext& c) {
  Expr x = self(c);
  if (c.out().dtype == ScalarType::Bool) throw NotCovered{};
  c.define(x * x);
}

void power(RuleContext& c) {
  need_float(c);
  ScalarType dtype = compute_type(c.promoted({"self", "exponent"}));
  if (!c10::isFloatingType(dtype)) throw NotCovered{};
  Expr x = c.operand("self", dtype);
  // torch takes an integer into the type of the result first.
  if (!c10::isFloatingType(c.type("self").dtype) && c.out().dtype != dtype) x = cast(cast(x, c.out().dtype), dtype);
  if (!c.is_tensor("exponent")) {
    double exponent = c.number("exponent");
    if (exponent == 2) return c.define(x * x);
    // torch rounds half types in between; float16 on the CPU it computes in float32.
    const bool in_float = c.out().dtype == ScalarType::Half && !c.program().for_gpu();
    if (exponent == 3) return c.define((in_float ? x * x : cast(cast(x * x, c.out().dtype), x->dtype)) * x);
    if (exponent == 1) return c.define(x);
    if (compute_type(c.out().dtype) != c.out().dtype) throw NotCovered{};
    if (exponent == 0.5) return c.define(unary(PointOp::kSqrt, x));
    if (exponent == -0.5) return c.define(unary(PointOp::kRsqrt, x));
    if (exponent == -1) return c.define(number(1, x) / x);
    if (exponent == -2) return c.define(number(1, x) / (x * x));
  }
  c.define(binary(PointOp::kPow, x, c.fitting("exponent", dtype)));
}

void where_rule(RuleContext& c) {
  ScalarType dtype = work(c);
  c.define(where(c.operand("condition", ScalarType::Bool), c.fitting("self", dtype), c.fitting("other", dtype)));
}

void masked_fill(RuleContext& c) {
  if (c.is_tensor("value") && !c.type("value").sizes.empty()) throw NotCovered{};
  Expr x = self(c);
  c.define(where(c.operand("mask", ScalarType::Bool), c.fitting("value", x->dtype, true), x));
}

void addcmul(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(x + c.fitting("value", x->dtype) * c.operand("tensor1", x->dtype) * c.operand("tensor2", x->dtype));
}

void addcdiv(RuleContext& c) {
  need_float(c);
  Expr x = self(c);
  c.define(x + c.fitting("value", x->dtype) * c.operand("tensor1", x->dtype) / c.operand("tensor2", x->dtype));
}

void lerp_scalar(RuleContext& c) {
  need_float(c);
  Expr a = self(c), b = c.operand("end", a->dtype);
  double weight = c.number("weight");
  c.define(std::abs(weight) < 0.5 ? a + number(weight, a) * (b - a) : b - (b - a) * number(1 - weight, a));
}

void threshold(RuleContext& c) {
  Expr x = self(c);
  c.define(where(compare(PointOp::kLe, x, c.fitting("threshold", x->dtype)), c.fitting("value", x->dtype), x));
}

void isnan_rule(RuleContext& c) {
  if (!c10::isFloatingType(c.type("self").dtype)) throw NotCovered{};
  c.define(point(PointOp::kIsNan, ScalarType::Bool, {c.operand("self", c.type("self").dtype)}));
}

void isinf_rule(RuleContext& c) {
  if (!c10::isFloatingType(c.type("self").dtype)) throw NotCovered{};
  Expr x = c.operand("self", c.type("self").dtype);
  c.define(compare(PointOp::kEq, unary(PointOp::kAbs, x), number(std::numeric_limits<double>::infinity(), x)));
}

void batch_norm(RuleContext& c) {
  need_float(c);
  const graph::TensorType& type = c.out();
  if (c.flag("training", true) || type.sizes.size() < 2) throw NotCovered{};
  // On a CPU libtorch rounds half types in between, on a GPU only the result.
  bool half = compute_type(type.dtype) != type.dtype;
  if (half && type.device.is_cpu()) throw NotCovered{};
  auto channel = [&](std::string_view name) {
    const graph::TensorType& seen = c.type(name);
    Sizes sizes(type.sizes.size() - 1, 1), strides(type.sizes.size() - 1, 0);
    sizes[0] = seen.sizes.at(0);
    strides[0] = seen.strides.at(0);
    return cast(load_as(c.value(name), seen.dtype, sizes, strides, 0), compute_type(type.dtype));
  };
  Expr x = c.operand("input", type.dtype);
  Expr scale = unary(PointOp::kRsqrt, channel("running_var") + number(c.number("eps", 1e-5), x));
  if (c.has("weight")) scale = scale * channel("weight");
  Expr y = (x - channel("running_mean")) * scale;
  c.define(c.has("bias") ? y + channel("bias") : y);
}

}  // namespace

const RuleTable& pointwise_rules() {
  static const RuleTable table = {
      {"aten::add.Tensor", arithmetic<PointOp::kAdd>},
      {"aten::add.Scalar", arithmetic<PointOp::kAdd>},
      {"aten::sub.Tensor", arithmetic<PointOp::kSub>},
      {"aten::sub.Scalar", arithmetic<PointOp::kSub>},
      {"aten::subtract.Tensor", arithmetic<PointOp::kSub>},
      {"aten::mul.Tensor", arithmetic<PointOp::kMul>},
      {"aten::mul.Scalar", arithmetic<PointOp::kMul>},
      {"aten::multiply.Tensor", arithmetic<PointOp::kMul>},
      {"aten::div.Tensor", divide},
      {"aten::div.Scalar", divide},
      {"aten::true_divide.Tensor", divide},
      {"aten::divide.Tensor", divide},
      {"aten::rsub.Tensor", rsub},
      {"aten::rsub.Scalar", rsub},
      {"aten::maximum", extremum<PointOp::kMax>},
      {"aten::minimum", extremum<PointOp::kMin>},
      {"aten::max.other", extremum<PointOp::kMax>},
      {"aten::min.other", extremum<PointOp::kMin>},
      {"aten::eq.Tensor", comparison<PointOp::kEq>},
      {"aten::eq.Scalar", comparison<PointOp::kEq>},
      {"aten::ne.Tensor", comparison<PointOp::kNe>},
      {"aten::ne.Scalar", comparison<PointOp::kNe>},
      {"aten::lt.Tensor", comparison<PointOp::kLt>},
      {"aten::lt.Scalar", comparison<PointOp::kLt>},
      {"aten::le.Tensor", comparison<PointOp::kLe>},
      {"aten::le.Scalar", comparison<PointOp::kLe>},
      {"aten::gt.Tensor", comparison<PointOp::kGt>},
      {"aten::gt.Scalar", comparison<PointOp::kGt>},
      {"aten::ge.Tensor", comparison<PointOp::kGe>},
      {"aten::ge.Scalar", comparison<PointOp::kGe>},
      {"aten::bitwise_and.Tensor", bitwise<PointOp::kAnd>},
      {"aten::bitwise_and.Scalar", bitwise<PointOp::kAnd>},
      {"aten::bitwise_or.Tensor", bitwise<PointOp::kOr>},
      {"aten::bitwise_or.Scalar", bitwise<PointOp::kOr>},
      {"aten::bitwise_xor.Tensor", bitwise<PointOp::kXor>},
      {"aten::bitwise_xor.Scalar", bitwise<PointOp::kXor>},
      {"aten::__and__.Tensor", bitwise<PointOp::kAnd>},
      {"aten::__or__.Tensor", bitwise<PointOp::kOr>},
      {"aten::__xor__.Tensor", bitwise<PointOp::kXor>},
      {"aten::logical_and", logical<PointOp::kAnd>},
      {"aten::logical_or", logical<PointOp::kOr>},
      {"aten::logical_xor", logical<PointOp::kXor>},
      {"aten::logical_not", logical_not},
      {"aten::bitwise_not", bitwise_not},
      {"aten::neg", same_unary<PointOp::kNeg>},
      {"aten::abs", same_unary<PointOp::kAbs>},
      {"aten::sign", same_unary<PointOp::kSign>},
      {"aten::exp", float_unary<PointOp::kExp>},
      {"aten::expm1", float_unary<PointOp::kExpm1>},
      {"aten::log", float_unary<PointOp::kLog>},
      {"aten::log1p", float_unary<PointOp::kLog1p>},
      {"aten::log2", float_unary<PointOp::kLog2>},
      {"aten::log10", float_unary<PointOp::kLog10>},
      // Not aten::sqrt: eager's (MKL's) is not rounded correctly, and optimisers divide by it, which blows the difference up.
      {"aten::sin", float_unary<PointOp::kSin>},
      {"aten::cos", float_unary<PointOp::kCos>},
      {"aten::tan", float_unary<PointOp::kTan>},
      {"aten::atan", float_unary<PointOp::kAtan>},
      {"aten::tanh", float_unary<PointOp::kTanh>},
      {"aten::erf", float_unary<PointOp::kErf>},
      {"aten::special_erf", float_unary<PointOp::kErf>},
      {"aten::floor", round_unary<PointOp::kFloor>},
      {"aten::ceil", round_unary<PointOp::kCeil>},
      {"aten::round", round_unary<PointOp::kRound>},
      {"aten::trunc", round_unary<PointOp::kTrunc>},
      {"aten::relu", relu},
      {"aten::relu6", relu6},
      {"aten::hardtanh", hardtanh},
      {"aten::clamp", clamp_rule},
      {"aten::clip", clamp_rule},
      {"aten::clamp_min", clamp_rule},
      {"aten::clamp_max", clamp_rule},
      {"aten::sigmoid", sigmoid_rule},
      {"aten::silu", silu},
      {"aten::hardsigmoid", hardsigmoid},
      {"aten::hardswish", hardswish},
      {"aten::leaky_relu", leaky_relu},
      {"aten::elu", elu},
      {"aten::softplus", softplus_rule},
      {"aten::mish", mish},
      {"aten::gelu", gelu},
      {"aten::rsqrt", rsqrt},
      {"aten::reciprocal", reciprocal},
      {"aten::square", square},
      {"aten::pow.Tensor_Scalar", power},
      {"aten::pow.Tensor_Tensor", power},
      {"aten::where.self", where_rule},
      {"aten::where.ScalarSelf", where_rule},
      {"aten::where.ScalarOther", where_rule},
      {"aten::where.Scalar", where_rule},
      {"aten::masked_fill.Scalar", masked_fill},
      {"aten::masked_fill.Tensor", masked_fill},
      {"aten::addcmul", addcmul},
      {"aten::addcdiv", addcdiv},
      {"aten::lerp.Scalar", lerp_scalar},
      {"aten::threshold", threshold},
      {"aten::isnan", isnan_rule},
      {"aten::isinf", isinf_rule},
      {"aten::batch_norm", batch_norm},
  };
  return table;
}

}  // namespace dynrun::lowering
