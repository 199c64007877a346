#include "lowering/emit/exact_halves.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

namespace dynrun::lowering::emit {

ExactHalves::ExactHalves(const Kernel& kernel) {
  for (const LoopOp& op : kernel.ops) {  // arguments come before what takes them
    Fits fits;
    if (op.kind == ExpressionKind::kConstant) fits = of_constant(op);
    if (op.kind == ExpressionKind::kPoint) fits = of_point(op);
    if (op.dtype == c10::ScalarType::Half) fits.half = true;
    if (op.dtype == c10::ScalarType::BFloat16) fits.bfloat = true;
    fits_.push_back(fits);
  }
}

bool ExactHalves::holds(std::int32_t op, c10::ScalarType dtype) const {
  const Fits& fits = fits_[static_cast<std::size_t>(op)];
  return dtype == c10::ScalarType::Half ? fits.half : dtype == c10::ScalarType::BFloat16 && fits.bfloat;
}

ExactHalves::Fits ExactHalves::of_constant(const LoopOp& op) {
  if (op.argument >= 0 || op.dtype != c10::ScalarType::Float) return {};
  const auto number = static_cast<float>(op.number);
  return {static_cast<float>(c10::Half(number)) == number, static_cast<float>(c10::BFloat16(number)) == number};
}

ExactHalves::Fits ExactHalves::of_point(const LoopOp& op) const {
  if (op.dtype != c10::ScalarType::Float) return {};
  auto of = [&](std::size_t argument) { return fits_[static_cast<std::size_t>(op.arguments[argument])]; };
  switch (op.op) {
    case PointOp::kCast:
    case PointOp::kNeg:
    case PointOp::kAbs:
      return of(0);
    case PointOp::kMax:
    case PointOp::kMin:
      return both(of(0), of(1));
    case PointOp::kWhere:
      return both(of(1), of(2));
    default:
      return {};
  }
}

}  // namespace dynrun::lowering::emit
