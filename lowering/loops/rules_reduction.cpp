#include "lowering/loops/decompose.h"

namespace dynrun::lowering {
namespace {

using c10::ScalarType;

void need_float(ScalarType dtype) {
  if (!c10::isFloatingType(dtype)) throw NotCovered{};
}

std::int64_t reduced_count(const Sizes& sizes, const std::vector<bool>& mask) {
  std::int64_t count = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) count *= mask[i] ? sizes[i] : 1;
  return count;
}

/// A reduction needs dimensions and elements.
void need_elements(const Sizes& sizes) {
  if (sizes.empty()) throw NotCovered{};
  for (std::int64_t size : sizes) {
    if (size == 0) throw NotCovered{};
  }
}

std::vector<bool> mask_of(const RuleContext& c, std::string_view dims, const Sizes& sizes) {
  need_elements(sizes);
  return dimension_mask(c.has(dims) ? c.integers(dims) : std::vector<std::int64_t>{}, sizes.size());
}

void sum(RuleContext& c) {
  const graph::TensorType& type = c.type("self");
  auto mask = c.find("dim") != nullptr ? mask_of(c, "dim", type.sizes) : dimension_mask({}, type.sizes.size());
  need_elements(type.sizes);
  if (c.out().dtype == ScalarType::Bool) throw NotCovered{};
  // With another `dtype` the items are converted first (those of a mean are not), and then added up in the type that is computed in.
  c.define_reduced(reduce(ReduceOp::kSum, cast(cast(c.tensor("self"), c.out().dtype), compute_type(c.out().dtype)), mask), mask);
}

void mean(RuleContext& c) {
  need_float(c.out().dtype);
  const graph::TensorType& type = c.type("self");
  need_elements(type.sizes);
  auto mask = c.find("dim") != nullptr ? mask_of(c, "dim", type.sizes) : dimension_mask({}, type.sizes.size());
  Expr total = reduce(ReduceOp::kSum, c.operand("self", compute_type(c.out().dtype)), mask);
  c.define_reduced(total / number(static_cast<double>(reduced_count(type.sizes, mask)), total), mask);
}

template <ReduceOp op>
void extremum(RuleContext& c) {
  const graph::TensorType& type = c.type("self");
  auto mask = mask_of(c, "dim", type.sizes);
  if (type.dtype == ScalarType::Bool) throw NotCovered{};
  c.define_reduced(reduce(op, c.operand("self", compute_type(type.dtype)), mask), mask);
}

struct Moments {
  Expr mean, centred, variance;
};

/// Two passes over a row that stays in cache; `correction` is Bessel's.
Moments moments(const Expr& x, const std::vector<bool>& mask, double correction) {
  auto count = static_cast<double>(reduced_count(x->sizes, mask));
  Moments out;
  out.mean = reduce(ReduceOp::kSum, x, mask) / number(count, x);
  out.centred = x - out.mean;
  double divisor = std::max(count - correction, 0.0);
  out.variance = reduce(ReduceOp::kSum, out.centred * out.centred, mask) / number(divisor, x);
  return out;
}

/// The same, with the second pass also finding by how much the first one's mean is off: of equal numbers nothing is left, as with eager.
Moments moments_of_norm(const RuleContext& c, const Expr& x, const std::vector<bool>& mask) {
  if (c.program().for_gpu()) return moments(x, mask, 0);
  const auto count = static_cast<double>(reduced_count(x->sizes, mask));
  auto mean = [&](const Expr& item) { return reduce(ReduceOp::kSum, item, mask) * number(1 / count, x); };
  const Expr about = mean(x), centred = x - about, off = mean(centred);
  return {about + off, centred - off, binary(PointOp::kMax, mean(centred * centred) - off * off, number(0, x))};
}

double correction_of(const RuleContext& c) {
  if (c.find("unbiased") != nullptr) return c.flag("unbiased", true) ? 1 : 0;
  return c.number("correction", 1);
}

std::vector<bool> variance_mask(const RuleContext& c) { return mask_of(c, c.find("dim") != nullptr ? "dim" : "-", c.type("self").sizes); }

/// Eager's on the CPU is computed in float64. That of a whole tensor is left to it: it takes its own mean, as rounded.
Expr variance_of(RuleContext& c) {
  need_float(c.out().dtype);
  const std::vector<bool> mask = variance_mask(c);
  if (!c.program().for_gpu() && std::find(mask.begin(), mask.end(), false) == mask.end()) throw NotCovered{};
  const Expr x = c.operand("self", c.type("self").dtype);
  return moments(c.program().for_gpu() ? x : cast(x, ScalarType::Double), mask, correction_of(c)).variance;
}

void variance(RuleContext& c) {
  const Expr found = variance_of(c);
  c.define_reduced(cast(found, compute_type(c.out().dtype)), variance_mask(c));
}

void deviation(RuleContext& c) {
  const Expr found = unary(PointOp::kSqrt, variance_of(c));
  c.define_reduced(cast(found, compute_type(c.out().dtype)), variance_mask(c));
}

// var_mean is left to libtorch: its mean is NaN or infinite by the place of an infinity in the row.

struct SoftmaxParts {
  Expr shifted, exponential, total;
};

SoftmaxParts softmax_parts(RuleContext& c) {
  need_float(c.out().dtype);
  const graph::TensorType& type = c.type("self");
  need_elements(type.sizes);
  auto mask = dimension_mask({c.integer("dim")}, type.sizes.size());
  // softmax(dtype=) converts first, in a step of its own that rounds.
  Expr x = cast(cast(c.tensor("self"), c.out().dtype), compute_type(c.out().dtype));
  SoftmaxParts parts;
  parts.shifted = x - reduce(ReduceOp::kMax, x, mask);
  parts.exponential = unary(PointOp::kExp, parts.shifted);
  parts.total = reduce(ReduceOp::kSum, parts.exponential, mask);
  return parts;
}

void softmax(RuleContext& c) {
  SoftmaxParts parts = softmax_parts(c);
  c.define(parts.exponential * (number(1, parts.total) / parts.total));
}

void log_softmax(RuleContext& c) {
  // torch rounds half types inside, differently by dimension: left to it.
  if (compute_type(c.out().dtype) != c.out().dtype) throw NotCovered{};
  SoftmaxParts parts = softmax_parts(c);
  c.define(parts.shifted - unary(PointOp::kLog, parts.total));
}

/// weight and bias of a norm over the last dimensions broadcast from the right by themselves.
Expr affine(const RuleContext& c, Expr y) {
  if (c.has("weight")) y = y * c.operand("weight", y->dtype);
  if (c.has("bias")) y = y + c.operand("bias", y->dtype);
  return y;
}

std::vector<bool> last_dimensions(std::size_t count, std::size_t rank) {
  std::vector<bool> mask(rank, false);
  for (std::size_t i = rank - count; i < rank; ++i) mask[i] = true;
  return mask;
}

void layer_norm(RuleContext& c) {
  const graph::TensorType& type = c.type("input");
  need_float(type.dtype);
  need_elements(type.sizes);
  auto mask = last_dimensions(c.integers("normalized_shape").size(), type.sizes.size());
  Moments m = moments_of_norm(c, c.operand("input", type.dtype), mask);
  Expr inverse = unary(PointOp::kRsqrt, m.variance + number(c.number("eps", 1e-5), m.variance));
  c.define(affine(c, m.centred * inverse), 0);
  if (c.node().outputs.size() != 1) throw NotCovered{};
}

void rms_norm(RuleContext& c) {
  const graph::TensorType& type = c.type("input");
  if (type.dtype != ScalarType::Float && type.dtype != ScalarType::Double) throw NotCovered{};
  need_elements(type.sizes);
  auto mask = last_dimensions(c.integers("normalized_shape").size(), type.sizes.size());
  Expr x = c.operand("input", type.dtype);
  double otherwise =
      type.dtype == ScalarType::Double ? std::numeric_limits<double>::epsilon() : std::numeric_limits<float>::epsilon();
  Expr square = reduce(ReduceOp::kSum, x * x, mask) / number(static_cast<double>(reduced_count(type.sizes, mask)), x);
  c.define(affine(c, x * unary(PointOp::kRsqrt, square + number(c.number("eps", otherwise), x))));
}

void group_norm(RuleContext& c) {
  const graph::TensorType& type = c.type("input");
  if (type.dtype != ScalarType::Float && type.dtype != ScalarType::Double) throw NotCovered{};
  need_elements(type.sizes);
  if (!type.is_contiguous() || type.sizes.size() < 2 || c.program().is_view(c.value("input"))) throw NotCovered{};
  std::int64_t groups = c.integer("num_groups"), channels = type.sizes[1], rest = 1;
  for (std::size_t i = 2; i < type.sizes.size(); ++i) rest *= type.sizes[i];
  Sizes sizes = {type.sizes[0], groups, channels / groups, rest};
  Sizes strides = {channels * rest, channels / groups * rest, rest, 1};
  Moments m = moments_of_norm(c, load_as(c.value("input"), type.dtype, sizes, strides, 0), {false, false, true, true});
  Expr y = m.centred / unary(PointOp::kSqrt, m.variance + number(c.number("eps", 1e-5), m.variance));
  auto channel = [&](std::string_view name) {
    std::int64_t step = c.type(name).strides.at(0);
    return load_as(c.value(name), type.dtype, {1, groups, channels / groups, 1}, {0, channels / groups * step, step, 0}, 0);
  };
  if (c.has("weight")) y = y * channel("weight");
  if (c.has("bias")) y = y + channel("bias");
  c.define_reshaped(y);
}

}  // namespace

const RuleTable& reduction_rules() {
  static const RuleTable table = {
      {"aten::sum", sum},
      {"aten::sum.dim_IntList", sum},
      {"aten::mean", mean},
      {"aten::mean.dim", mean},
      {"aten::amax", extremum<ReduceOp::kMax>},
      {"aten::amin", extremum<ReduceOp::kMin>},
      {"aten::var.correction", variance},
      {"aten::var.dim", variance},
      {"aten::std.correction", deviation},
      {"aten::std.dim", deviation},
      {"aten::softmax.int", softmax},
      {"aten::_softmax", softmax},
      {"aten::log_softmax.int", log_softmax},
      {"aten::_log_softmax", log_softmax},
      {"aten::layer_norm", layer_norm},
      {"aten::rms_norm", rms_norm},
      {"aten::group_norm", group_norm},
  };
  return table;
}

}  // namespace dynrun::lowering
