// Polynomials: exp, log and tanh from Cephes' single precision library (S. Moshier), erf from Eigen's rational approximation.

#include "lowering/emit/math.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <cmath>
#include <limits>

namespace dynrun::lowering::emit {

namespace {

template <typename T>
using Unary = T (*)(T);
template <typename T>
using Binary = T (*)(T, T);
template <typename T>
using Ternary = T (*)(T, T, T);

template <typename Function>
void* address(Function function) {
  return reinterpret_cast<void*>(function);
}

struct LibraryNames {
  PointOp op;
  const char* single;
  const char* twice;
};

constexpr LibraryNames kLibrary[] = {
    {PointOp::kExp, "expf", "exp"},       {PointOp::kExpm1, "expm1f", "expm1"}, {PointOp::kLog, "logf", "log"},
    {PointOp::kLog1p, "log1pf", "log1p"}, {PointOp::kLog2, "log2f", "log2"},    {PointOp::kLog10, "log10f", "log10"},
    {PointOp::kSin, "sinf", "sin"},       {PointOp::kCos, "cosf", "cos"},       {PointOp::kTan, "tanf", "tan"},
    {PointOp::kAtan, "atanf", "atan"},    {PointOp::kTanh, "tanhf", "tanh"},    {PointOp::kErf, "erff", "erf"},
    {PointOp::kPow, "powf", "pow"},
};

}  // namespace

llvm::ArrayRef<std::pair<const char*, void*>> Math::libm_functions() {
  static const std::pair<const char*, void*> kFunctions[] = {
      {"expf", address<Unary<float>>(std::exp)},
      {"exp", address<Unary<double>>(std::exp)},
      {"expm1f", address<Unary<float>>(std::expm1)},
      {"expm1", address<Unary<double>>(std::expm1)},
      {"logf", address<Unary<float>>(std::log)},
      {"log", address<Unary<double>>(std::log)},
      {"log1pf", address<Unary<float>>(std::log1p)},
      {"log1p", address<Unary<double>>(std::log1p)},
      {"log2f", address<Unary<float>>(std::log2)},
      {"log2", address<Unary<double>>(std::log2)},
      {"log10f", address<Unary<float>>(std::log10)},
      {"log10", address<Unary<double>>(std::log10)},
      {"sinf", address<Unary<float>>(std::sin)},
      {"sin", address<Unary<double>>(std::sin)},
      {"cosf", address<Unary<float>>(std::cos)},
      {"cos", address<Unary<double>>(std::cos)},
      {"tanf", address<Unary<float>>(std::tan)},
      {"tan", address<Unary<double>>(std::tan)},
      {"atanf", address<Unary<float>>(std::atan)},
      {"atan", address<Unary<double>>(std::atan)},
      {"tanhf", address<Unary<float>>(std::tanh)},
      {"tanh", address<Unary<double>>(std::tanh)},
      {"erff", address<Unary<float>>(std::erf)},
      {"erf", address<Unary<double>>(std::erf)},
      // What LLVM itself calls on hosts without FMA or SSE 4.1.
      {"fmaf", address<Ternary<float>>(std::fma)},
      {"fma", address<Ternary<double>>(std::fma)},
      {"floorf", address<Unary<float>>(std::floor)},
      {"floor", address<Unary<double>>(std::floor)},
      {"ceilf", address<Unary<float>>(std::ceil)},
      {"ceil", address<Unary<double>>(std::ceil)},
      {"truncf", address<Unary<float>>(std::trunc)},
      {"trunc", address<Unary<double>>(std::trunc)},
      {"nearbyintf", address<Unary<float>>(std::nearbyint)},
      {"nearbyint", address<Unary<double>>(std::nearbyint)},
      {"powf", address<Binary<float>>(std::pow)},
      {"pow", address<Binary<double>>(std::pow)},
  };
  return kFunctions;
}

llvm::Type* Math::integer_type(Value* like) const {
  llvm::Type* scalar = like->getType()->getScalarType();
  llvm::Type* integer = b_.getIntNTy(scalar->getScalarSizeInBits());
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(like->getType()))
    return llvm::FixedVectorType::get(integer, vector->getNumElements());
  return integer;
}

Math::Value* Math::fma(Value* a, Value* b, Value* c) {
  return b_.CreateIntrinsic(llvm::Intrinsic::fma, {a->getType()}, {a, b, c});
}

Math::Value* Math::polynomial(Value* x, llvm::ArrayRef<double> coefficients) {
  Value* sum = number(x, coefficients[0]);
  for (double coefficient : coefficients.drop_front()) sum = fma(sum, x, number(x, coefficient));
  return sum;
}

Math::Value* Math::call(llvm::Intrinsic::ID id, Value* a) {
  return b_.CreateUnaryIntrinsic(id, a);
}

Math::Value* Math::library_call(const char* name, llvm::ArrayRef<Value*> arguments) {
  llvm::Type* type = arguments[0]->getType();
  llvm::Type* scalar = type->getScalarType();
  llvm::SmallVector<llvm::Type*> formals(arguments.size(), scalar);
  llvm::Module* module = b_.GetInsertBlock()->getModule();
  const std::string symbol = machine_ == Machine::kGpu ? std::string("__nv_") + name : name;
  llvm::FunctionCallee callee = module->getOrInsertFunction(symbol, llvm::FunctionType::get(scalar, formals, false));
  auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(type);
  if (vector == nullptr) return b_.CreateCall(callee, arguments);
  Value* result = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < vector->getNumElements(); ++lane) {
    llvm::SmallVector<Value*> lanes;
    for (Value* argument : arguments) lanes.push_back(b_.CreateExtractElement(argument, lane));
    result = b_.CreateInsertElement(result, b_.CreateCall(callee, lanes), lane);
  }
  return result;
}

/// 2^n for an integer vector whose exponent field does not overflow.
Math::Value* Math::power_of_two(Value* n) {
  Value* bits = b_.CreateShl(b_.CreateAdd(n, llvm::ConstantInt::get(n->getType(), 127)), 23);
  llvm::Type* type = b_.getFloatTy();
  if (auto* vector = llvm::dyn_cast<llvm::FixedVectorType>(n->getType()))
    type = llvm::FixedVectorType::get(type, vector->getNumElements());
  return b_.CreateBitCast(bits, type);
}

Math::Value* Math::exp(Value* x) {
  // Beyond these the result is 0 and infinity; NaN passes both comparisons by.
  x = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, -104.0)), number(x, -104.0), x);
  x = b_.CreateSelect(b_.CreateFCmpOGT(x, number(x, 89.0)), number(x, 89.0), x);
  // Adding 1.5 * 2^23 rounds to an integer that then stands in the low bits.
  Value* magic = number(x, 12582912.0);
  Value* shifted = fma(x, number(x, 1.44269504088896341), magic);
  Value* n = b_.CreateSub(b_.CreateBitCast(shifted, integer_type(x)), b_.CreateBitCast(magic, integer_type(x)));
  Value* whole = b_.CreateFSub(shifted, magic);
  Value* r = fma(whole, number(x, -0.693359375), x);
  r = fma(whole, number(x, 2.12194440e-4), r);
  Value* p =
      polynomial(r, {1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1});
  Value* y = b_.CreateFAdd(fma(p, b_.CreateFMul(r, r), r), number(x, 1.0));
  Value* half = b_.CreateAShr(n, 1);
  return b_.CreateFMul(b_.CreateFMul(y, power_of_two(half)), power_of_two(b_.CreateSub(n, half)));
}

Math::Value* Math::expm1(Value* x) {
  Value* p = polynomial(x, {1.9841270e-4, 1.3888889e-3, 8.3333333e-3, 4.1666667e-2, 1.6666667e-1, 0.5});
  Value* small = fma(p, b_.CreateFMul(x, x), x);
  Value* large = b_.CreateFSub(exp(x), number(x, 1.0));
  Value* y = b_.CreateSelect(b_.CreateFCmpOLT(call(llvm::Intrinsic::fabs, x), number(x, 0.35)), small, large);
  return b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, 0.0)), x, y);  // -0.0 too
}

Math::Value* Math::log(Value* x) {
  Value* tiny = b_.CreateFCmpOLT(x, number(x, 1.17549435e-38));
  Value* scaled = b_.CreateSelect(tiny, b_.CreateFMul(x, number(x, 8388608.0)), x);
  Value* bits = b_.CreateBitCast(scaled, integer_type(x));
  Value* exponent = b_.CreateSub(b_.CreateLShr(bits, 23), integer(x, 126));
  Value* mantissa =
      b_.CreateBitCast(b_.CreateOr(b_.CreateAnd(bits, integer(x, 0x007fffff)), integer(x, 0x3f000000)), x->getType());
  Value* low = b_.CreateFCmpOLT(mantissa, number(x, 0.707106781186547524));
  Value* m = b_.CreateFSub(b_.CreateSelect(low, b_.CreateFAdd(mantissa, mantissa), mantissa), number(x, 1.0));
  exponent = b_.CreateSub(exponent, b_.CreateZExt(low, exponent->getType()));
  Value* e = b_.CreateSIToFP(exponent, x->getType());
  e = b_.CreateSelect(tiny, b_.CreateFSub(e, number(x, 23.0)), e);
  Value* z = b_.CreateFMul(m, m);
  Value* y = polynomial(m, {7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1,
                            -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1});
  y = b_.CreateFMul(b_.CreateFMul(y, m), z);
  y = fma(e, number(x, -2.12194440e-4), y);
  y = fma(z, number(x, -0.5), y);
  y = b_.CreateFAdd(m, y);
  y = fma(e, number(x, 0.693359375), y);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  y = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, kInfinity)), x, y);
  y = b_.CreateSelect(b_.CreateFCmpOEQ(x, number(x, 0.0)), number(x, -kInfinity), y);
  return b_.CreateSelect(b_.CreateFCmpULT(x, number(x, 0.0)), number(x, std::numeric_limits<double>::quiet_NaN()), y);
}

/// Kahan's correction of log(1 + x) for the rounding of 1 + x.
Math::Value* Math::log1p(Value* x) {
  Value* one = number(x, 1.0);
  Value* u = b_.CreateFAdd(one, x);
  Value* difference = b_.CreateFSub(u, one);
  Value* corrected = b_.CreateFMul(log(u), b_.CreateFDiv(x, difference));
  Value* y = b_.CreateSelect(b_.CreateFCmpOEQ(difference, number(x, 0.0)), x, corrected);
  return b_.CreateSelect(b_.CreateFCmpOEQ(u, number(x, std::numeric_limits<double>::infinity())), u, y);
}

/// 1 - 2 / (e^2x + 1). On a GPU by libdevice's instructions.
Math::Value* Math::large_tanh(Value* x) {
  if (machine_ == Machine::kCpu) {
    Value* e = exp(b_.CreateFAdd(x, x));
    return b_.CreateFSub(number(x, 1.0), b_.CreateFDiv(number(x, 2.0), b_.CreateFAdd(e, number(x, 1.0))));
  }
  constexpr double kTwoLog2E = 2.8853900817779268;
  Value* e = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_ex2_approx_ftz_f, {}, {b_.CreateFMul(x, number(x, kTwoLog2E))});
  Value* share = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_rcp_approx_ftz_f, {}, {b_.CreateFAdd(e, number(x, 1.0))});
  return fma(share, number(x, -2.0), number(x, 1.0));
}

/// Both of its forms, of which one is taken: a branch would cost more.
Math::Value* Math::tanh(Value* x) {
  Value* z = b_.CreateFMul(x, x);
  Value* p = polynomial(z, {-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1});
  Value* small = fma(b_.CreateFMul(p, z), x, x);
  Value* size = call(llvm::Intrinsic::fabs, x);
  Value* y = b_.CreateSelect(b_.CreateFCmpOLT(size, number(x, 0.625)), small, large_tanh(size));
  return b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, y, x);  // also of zero
}

/// On a GPU in float32 the instruction that libtorch takes: good to two units in the last place.
Math::Value* Math::rsqrt(Value* x) {
  if (machine_ == Machine::kGpu && x->getType()->isFloatTy()) return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_rsqrt_approx_f, {}, {x});
  return b_.CreateFDiv(number(x, 1.0), call(llvm::Intrinsic::sqrt, x));
}

Math::Value* Math::erf(Value* x) {
  Value* clamped = b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, -4.0)), number(x, -4.0), x);
  clamped = b_.CreateSelect(b_.CreateFCmpOGT(clamped, number(x, 4.0)), number(x, 4.0), clamped);
  Value* z = b_.CreateFMul(clamped, clamped);
  Value* above = polynomial(z, {-2.72614225801306e-10, 2.77068142495902e-08, -2.10102402082508e-06, -5.69250639462346e-05,
                                -7.34990630326855e-04, -2.95459980854025e-03, -1.60960333262415e-02});
  Value* below = polynomial(
      z, {-1.45660718464996e-05, -2.13374055278905e-04, -1.68282697438203e-03, -7.37332916720468e-03, -1.42647390514189e-02});
  Value* y = b_.CreateFDiv(b_.CreateFMul(clamped, above), below);
  // From here on float32's erf is 1, and 1 - |erf| has to be 0.
  Value* far = b_.CreateFCmpOGE(call(llvm::Intrinsic::fabs, x), number(x, 3.925));
  return b_.CreateSelect(far, b_.CreateBinaryIntrinsic(llvm::Intrinsic::copysign, number(x, 1.0), x), y);
}

Math::Value* Math::float_unary(PointOp op, Value* x) {
  bool single = x->getType()->getScalarType()->isFloatTy();
  const bool polynomials = single && machine_ == Machine::kCpu;
  switch (op) {
    case PointOp::kNeg:
      return b_.CreateFNeg(x);
    case PointOp::kAbs:
      return call(llvm::Intrinsic::fabs, x);
    case PointOp::kSqrt:
      return call(llvm::Intrinsic::sqrt, x);
    case PointOp::kRsqrt:
      return rsqrt(x);
    case PointOp::kFloor:
      return call(llvm::Intrinsic::floor, x);
    case PointOp::kCeil:
      return call(llvm::Intrinsic::ceil, x);
    case PointOp::kRound:
      return call(llvm::Intrinsic::nearbyint, x);
    case PointOp::kTrunc:
      return call(llvm::Intrinsic::trunc, x);
    case PointOp::kIsNan:
      return b_.CreateFCmpUNO(x, x);
    case PointOp::kSign: {
      Value* positive = b_.CreateSelect(b_.CreateFCmpOGT(x, number(x, 0)), number(x, 1), number(x, 0));
      return b_.CreateSelect(b_.CreateFCmpOLT(x, number(x, 0)), number(x, -1), positive);
    }
    case PointOp::kExp:
      if (polynomials) return exp(x);
      break;
    case PointOp::kExpm1:
      if (polynomials) return expm1(x);
      break;
    case PointOp::kLog:
      if (polynomials) return log(x);
      break;
    case PointOp::kLog1p:
      if (polynomials) return log1p(x);
      break;
    case PointOp::kTanh:
      if (single) return tanh(x);
      break;
    case PointOp::kErf:
      if (polynomials) return erf(x);
      break;
    default:
      break;
  }
  for (const LibraryNames& row : kLibrary) {
    if (row.op == op) return library_call(single ? row.single : row.twice, {x});
  }
  llvm_unreachable("no such operator on floats");
}

/// Whether it is a constant other than NaN.
static bool is_number(llvm::Value* value) {
  auto* constant = llvm::dyn_cast<llvm::Constant>(value);
  if (constant && constant->getType()->isVectorTy()) constant = constant->getSplatValue();
  auto* number = llvm::dyn_cast_or_null<llvm::ConstantFP>(constant);
  return number && !number->isNaN();
}

Math::Value* Math::extremum(bool maximum, Value* a, Value* b, bool is_signed) {
  if (!a->getType()->isFPOrFPVectorTy()) {
    bool boolean = a->getType()->getScalarType()->isIntegerTy(1);
    if (boolean) return maximum ? b_.CreateOr(a, b) : b_.CreateAnd(a, b);
    Value* wins = is_signed ? b_.CreateICmpSGT(a, b) : b_.CreateICmpUGT(a, b);
    return maximum ? b_.CreateSelect(wins, a, b) : b_.CreateSelect(wins, b, a);
  }
  // A NaN in a fails the ordered comparison and stays; one in b has to be asked for, unless b is known to be a number.
  if (is_number(b)) return b_.CreateSelect(maximum ? b_.CreateFCmpOLT(a, b) : b_.CreateFCmpOGT(a, b), b, a);
  if (machine_ == Machine::kGpu) return b_.CreateBinaryIntrinsic(maximum ? llvm::Intrinsic::maximum : llvm::Intrinsic::minimum, a, b);
  // Of 0 and -0 the processor's instruction, and libtorch with it, gives the second.
  Value* loses = maximum ? b_.CreateFCmpOLE(a, b) : b_.CreateFCmpOGE(a, b);
  return b_.CreateSelect(b_.CreateOr(loses, b_.CreateFCmpUNO(b, b)), b, a);
}

Math::Value* Math::arithmetic(PointOp op, Value* a, Value* b, bool is_signed) {
  bool floating = a->getType()->isFPOrFPVectorTy();
  switch (op) {
    case PointOp::kAdd:
      return floating ? b_.CreateFAdd(a, b) : b_.CreateAdd(a, b);
    case PointOp::kSub:
      return floating ? b_.CreateFSub(a, b) : b_.CreateSub(a, b);
    case PointOp::kMul:
      return floating ? b_.CreateFMul(a, b) : b_.CreateMul(a, b);
    case PointOp::kDiv:
      return b_.CreateFDiv(a, b);
    case PointOp::kMax:
      return extremum(true, a, b, is_signed);
    case PointOp::kMin:
      return extremum(false, a, b, is_signed);
    case PointOp::kAnd:
      return b_.CreateAnd(a, b);
    case PointOp::kOr:
      return b_.CreateOr(a, b);
    case PointOp::kXor:
      return b_.CreateXor(a, b);
    case PointOp::kPow:
      return library_call(a->getType()->getScalarType()->isFloatTy() ? "powf" : "pow", {a, b});
    default:
      return comparison(op, a, b, is_signed);
  }
}

Math::Value* Math::comparison(PointOp op, Value* a, Value* b, bool is_signed) {
  using Predicate = llvm::CmpInst::Predicate;
  bool floating = a->getType()->isFPOrFPVectorTy();
  auto pick = [&](Predicate real, Predicate with_sign, Predicate without) {
    return floating ? b_.CreateFCmp(real, a, b) : b_.CreateICmp(is_signed ? with_sign : without, a, b);
  };
  switch (op) {
    case PointOp::kEq:
      return pick(Predicate::FCMP_OEQ, Predicate::ICMP_EQ, Predicate::ICMP_EQ);
    case PointOp::kNe:
      return pick(Predicate::FCMP_UNE, Predicate::ICMP_NE, Predicate::ICMP_NE);
    case PointOp::kLt:
      return pick(Predicate::FCMP_OLT, Predicate::ICMP_SLT, Predicate::ICMP_ULT);
    case PointOp::kLe:
      return pick(Predicate::FCMP_OLE, Predicate::ICMP_SLE, Predicate::ICMP_ULE);
    case PointOp::kGt:
      return pick(Predicate::FCMP_OGT, Predicate::ICMP_SGT, Predicate::ICMP_UGT);
    case PointOp::kGe:
      return pick(Predicate::FCMP_OGE, Predicate::ICMP_SGE, Predicate::ICMP_UGE);
    default:
      llvm_unreachable("not a comparison");
  }
}

llvm::Value* Math::emit(PointOp op, llvm::ArrayRef<Value*> arguments, bool is_signed) {
  Value* a = arguments[0];
  if (op == PointOp::kWhere) return b_.CreateSelect(a, arguments[1], arguments[2]);
  if (op == PointOp::kMulAdd) return b_.CreateIntrinsic(llvm::Intrinsic::fmuladd, {a->getType()}, {a, arguments[1], arguments[2]});
  if (arguments.size() == 2) return arithmetic(op, a, arguments[1], is_signed);
  if (op == PointOp::kNot) return b_.CreateNot(a);
  if (a->getType()->isFPOrFPVectorTy()) return float_unary(op, a);
  Value* zero = llvm::ConstantInt::get(a->getType(), 0);
  switch (op) {
    case PointOp::kNeg:
      return b_.CreateNeg(a);
    case PointOp::kAbs:
      return is_signed ? b_.CreateSelect(b_.CreateICmpSLT(a, zero), b_.CreateNeg(a), a) : a;
    case PointOp::kSign: {
      Value* one = llvm::ConstantInt::get(a->getType(), 1);
      Value* positive = b_.CreateSelect(b_.CreateICmpEQ(a, zero), zero, one);
      return is_signed ? b_.CreateSelect(b_.CreateICmpSLT(a, zero), b_.CreateNeg(one), positive) : positive;
    }
    default:
      llvm_unreachable("no such operator on integers");
  }
}

}  // namespace dynrun::lowering::emit
