#include "lowering/emit/values.h"

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsNVPTX.h>

namespace dynrun::lowering::emit {

bool is_signed(c10::ScalarType dtype) {
  return dtype != c10::ScalarType::Byte && dtype != c10::ScalarType::Bool;
}

bool is_heavy(PointOp op) {
  switch (op) {
    case PointOp::kExp:
    case PointOp::kExpm1:
    case PointOp::kLog:
    case PointOp::kLog1p:
    case PointOp::kLog2:
    case PointOp::kLog10:
    case PointOp::kSin:
    case PointOp::kCos:
    case PointOp::kTan:
    case PointOp::kAtan:
    case PointOp::kTanh:
    case PointOp::kErf:
    case PointOp::kPow:
      return true;
    default:
      return false;
  }
}

Values::Values(llvm::LLVMContext& context, std::int64_t lanes, Machine machine, Bfloats bfloats)
    : context_(context), b_(context), math_(b_, machine), lanes_(lanes), machine_(machine), bfloats_(bfloats) {}

llvm::Type* Values::register_type(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Double:
      return b_.getDoubleTy();
    case ScalarType::Bool:
      return b_.getInt1Ty();
    case ScalarType::Long:
      return b_.getInt64Ty();
    case ScalarType::Int:
      return b_.getInt32Ty();
    case ScalarType::Short:
      return b_.getInt16Ty();
    case ScalarType::Char:
    case ScalarType::Byte:
      return b_.getInt8Ty();
    default:
      return b_.getFloatTy();
  }
}

llvm::Type* Values::memory_type(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Bool:
      return b_.getInt8Ty();
    case ScalarType::Half:
      return b_.getHalfTy();
    case ScalarType::BFloat16:
      return b_.getInt16Ty();
    default:
      return register_type(dtype);
  }
}

Values::Value* Values::from_memory(Value* value, ScalarType dtype) {
  bool vector = value->getType()->isVectorTy();
  if (dtype == ScalarType::Bool) return b_.CreateICmpNE(value, llvm::ConstantInt::get(value->getType(), 0));
  if (dtype == ScalarType::Half) return float_of_half(value);
  if (dtype != ScalarType::BFloat16) return value;
  Value* wide = b_.CreateShl(b_.CreateZExt(value, widen(b_.getInt32Ty(), vector)), 16);
  return b_.CreateBitCast(wide, widen(b_.getFloatTy(), vector));
}

/// On a GPU the optimiser may not see that a number is rounded to a type with instructions of its own: it would compute in that
/// type, and fuse a product with a sum without the rounding between them.
Values::Value* Values::half_of(Value* value) {
  if (machine_ != Machine::kGpu) return b_.CreateFPTrunc(value, widen(b_.getHalfTy(), value->getType()->isVectorTy()));
  Value* bits = b_.CreateIntrinsic(llvm::Intrinsic::convert_to_fp16, {value->getType()}, {value});
  return b_.CreateBitCast(bits, b_.getHalfTy());
}

Values::Value* Values::float_of_half(Value* value) {
  if (machine_ != Machine::kGpu) return b_.CreateFPExt(value, widen(b_.getFloatTy(), value->getType()->isVectorTy()));
  return b_.CreateIntrinsic(llvm::Intrinsic::convert_from_fp16, {b_.getFloatTy()}, {b_.CreateBitCast(value, b_.getInt16Ty())});
}

/// The top half of a float that is to become a bfloat16: nearest even, NaN kept one.
Values::Value* Values::bfloat_bits(Value* value) {
  bool vector = value->getType()->isVectorTy();
  if (machine_ == Machine::kGpu) return b_.CreateZExt(b_.CreateBitCast(b_.CreateFPTrunc(value, b_.getBFloatTy()), b_.getInt16Ty()), b_.getInt32Ty());
  Value* bits = b_.CreateBitCast(value, widen(b_.getInt32Ty(), vector));
  auto number = [&](std::uint64_t n) { return llvm::ConstantInt::get(bits->getType(), n); };
  Value* odd = b_.CreateAnd(b_.CreateLShr(bits, 16), number(1));
  Value* rounded = b_.CreateLShr(b_.CreateAdd(bits, b_.CreateAdd(odd, number(0x7fff))), 16);
  return b_.CreateSelect(b_.CreateFCmpUNO(value, value), number(0x7fc0), rounded);
}

/// A float with a bfloat16's digits.
Values::Value* Values::rounded_to_bfloat(Value* value) {
  if (bfloats_ == Bfloats::kNone) return b_.CreateBitCast(b_.CreateShl(bfloat_bits(value), 16), value->getType());
  // Of a pair whose lower half is zero: the pair is the float. Hardware rounds single numbers at a fraction of the rate of pairs.
  Value* pair = b_.CreateIntrinsic(llvm::Intrinsic::nvvm_ff2bf16x2_rn, {}, {value, llvm::ConstantFP::get(b_.getFloatTy(), 0.0)});
  return b_.CreateBitCast(pair, b_.getFloatTy());
}

/// In pairs whose lower halves are zero, as a float is that a bfloat16 holds: one instruction for the float32 operation and its
/// rounding. Rounding once or twice gives the same, since float32 has more than twice the digits, but for products below its normal
/// numbers (1e-38), the last digit of whose bfloat16 may differ. As assembly, because the optimiser would make sums and products of
/// it, which the assembler may fuse.
Values::Value* Values::bfloat_arithmetic(PointOp op, Value* a, Value* b) {
  llvm::Type* word = b_.getInt32Ty();
  auto assembly = [&](const char* code, const char* constraints, llvm::ArrayRef<Value*> operands) {
    llvm::SmallVector<llvm::Type*> formals(operands.size(), word);
    return b_.CreateBitCast(b_.CreateCall(llvm::InlineAsm::get(llvm::FunctionType::get(word, formals, false), code, constraints, false), operands), b_.getFloatTy());
  };
  a = b_.CreateBitCast(a, word), b = b_.CreateBitCast(b, word);
  if (bfloats_ == Bfloats::kArithmetic) {
    const char* code = op == PointOp::kMul ? "mul.rn.bf16x2 $0, $1, $2;" : op == PointOp::kSub ? "sub.rn.bf16x2 $0, $1, $2;" : "add.rn.bf16x2 $0, $1, $2;";
    return assembly(code, "=r,r,r", {a, b});
  }
  auto mul_add = [&](Value* x, Value* y, Value* z) { return assembly("fma.rn.bf16x2 $0, $1, $2, $3;", "=r,r,r,r", {x, y, z}); };
  auto pair = [&](std::uint32_t bits) { return b_.getInt32(bits << 16 | bits); };
  constexpr std::uint32_t kOne = 0x3f80, kMinusOne = 0xbf80, kMinusZero = 0x8000;
  if (op == PointOp::kMul) return mul_add(a, b, pair(kMinusZero));
  return op == PointOp::kSub ? mul_add(b, pair(kMinusOne), a) : mul_add(a, pair(kOne), b);
}

Values::Value* Values::to_memory(Value* value, ScalarType from, ScalarType dtype) {
  bool vector = value->getType()->isVectorTy();
  if (dtype == ScalarType::Bool) return b_.CreateZExt(value, widen(b_.getInt8Ty(), vector));
  if (dtype == ScalarType::Half) return half_of(value);
  if (dtype != ScalarType::BFloat16) return value;
  Value* bits = from == dtype ? b_.CreateLShr(b_.CreateBitCast(value, widen(b_.getInt32Ty(), vector)), 16) : bfloat_bits(value);
  return b_.CreateTrunc(bits, widen(b_.getInt16Ty(), vector));
}

Values::Value* Values::convert(Value* value, ScalarType from, ScalarType to) {
  bool vector = value->getType()->isVectorTy();
  llvm::Type* type = widen(register_type(to), vector);
  bool from_float = c10::isFloatingType(from), to_float = c10::isFloatingType(to);
  if (to == ScalarType::Bool) {
    if (from == ScalarType::Bool) return value;
    Value* zero = llvm::Constant::getNullValue(value->getType());
    return from_float ? b_.CreateFCmpUNE(value, zero) : b_.CreateICmpNE(value, zero);
  }
  if (from_float && to_float) {
    Value* out = value->getType() == type   ? value
                 : to == ScalarType::Double ? b_.CreateFPExt(value, type)
                                            : b_.CreateFPTrunc(value, type);
    if (to == ScalarType::Half) return float_of_half(half_of(out));
    if (to == ScalarType::BFloat16) return rounded_to_bfloat(out);
    return out;
  }
  if (to_float) {
    Value* out = is_signed(from) ? b_.CreateSIToFP(value, type) : b_.CreateUIToFP(value, type);
    return compute_type(to) == to ? out : convert(out, ScalarType::Float, to);
  }
  if (from_float) {
    // Through int32, and through int64 for uint8 and int64, as C++ converts on x86 and so eager does; what does not fit is
    // undefined there, and the lowest number on x86.
    bool wide = to == ScalarType::Long || to == ScalarType::Byte;
    llvm::Type* through = widen(wide ? b_.getInt64Ty() : b_.getInt32Ty(), vector);
    Value* whole = b_.CreateFreeze(b_.CreateFPToSI(value, through));
    if (machine_ != Machine::kGpu) {
      // Said here too, for numbers that LLVM comes to know.
      const double limit = wide ? 0x1p63 : 0x1p31;
      Value* fits = b_.CreateAnd(b_.CreateFCmpOGE(value, llvm::ConstantFP::get(value->getType(), -limit)), b_.CreateFCmpOLT(value, llvm::ConstantFP::get(value->getType(), limit)));
      whole = b_.CreateSelect(fits, whole, llvm::ConstantInt::get(through, llvm::APInt::getSignedMinValue(wide ? 64 : 32)));
    }
    return b_.CreateTrunc(whole, type);
  }
  return is_signed(from) ? b_.CreateSExtOrTrunc(value, type) : b_.CreateZExtOrTrunc(value, type);
}

Values::Value* Values::constant(const LoopOp& at, bool vector, llvm::ArrayRef<Value*> arguments) {
  llvm::Type* type = widen(register_type(at.dtype), vector);
  if (at.argument >= 0) return argument_constant(at, vector, arguments);
  if (at.dtype == ScalarType::Half) return llvm::ConstantFP::get(type, static_cast<float>(c10::Half(static_cast<float>(at.number))));
  if (at.dtype == ScalarType::BFloat16) return llvm::ConstantFP::get(type, static_cast<float>(c10::BFloat16(static_cast<float>(at.number))));
  if (c10::isFloatingType(at.dtype)) return llvm::ConstantFP::get(type, at.number);
  return llvm::ConstantInt::get(type, static_cast<std::uint64_t>(at.integer), true);
}

Values::Value* Values::argument_constant(const LoopOp& at, bool vector, llvm::ArrayRef<Value*> arguments) {
  Value* bits = arguments[static_cast<std::size_t>(at.argument)];
  llvm::Type* type = register_type(at.dtype);
  Value* value = !c10::isFloatingType(at.dtype)     ? b_.CreateTrunc(bits, type)
                 : at.dtype == ScalarType::Double ? b_.CreateBitCast(bits, type)
                                                    : b_.CreateFPTrunc(b_.CreateBitCast(bits, b_.getDoubleTy()), type);
  if (compute_type(at.dtype) != at.dtype) value = convert(value, ScalarType::Float, at.dtype);
  return vector ? splat(value) : value;
}

llvm::Constant* Values::identity(const LoopOp& at, bool vector) {
  llvm::Type* type = widen(register_type(at.dtype), vector);
  bool floating = c10::isFloatingType(at.dtype);
  if (at.reduce == ReduceOp::kSum) return llvm::Constant::getNullValue(type);
  bool lowest = at.reduce == ReduceOp::kMax;
  if (floating) return llvm::ConstantFP::getInfinity(type, lowest);
  unsigned bits = type->getScalarSizeInBits();
  if (!is_signed(at.dtype))
    return llvm::ConstantInt::get(type, lowest ? llvm::APInt::getMinValue(bits) : llvm::APInt::getMaxValue(bits));
  return llvm::ConstantInt::get(type, lowest ? llvm::APInt::getSignedMinValue(bits) : llvm::APInt::getSignedMaxValue(bits));
}

/// Between operators every result is rounded, as eager rounds it: a difference of equal products is 0. A product that is added up may
/// go into the sum unrounded.
Values::Value* Values::sum(Value* total, Value* term) {
  Value* added = b_.CreateFAdd(total, term);
  auto* product = llvm::dyn_cast<llvm::BinaryOperator>(term);
  auto* whole = llvm::dyn_cast<llvm::Instruction>(added);
  if (product && whole && product->getOpcode() == llvm::Instruction::FMul) product->setHasAllowContract(true), whole->setHasAllowContract(true);
  return added;
}

Values::Value* Values::combine(const LoopOp& at, Value* a, Value* b) {
  switch (at.reduce) {
    case ReduceOp::kSum:
      return c10::isFloatingType(at.dtype) ? sum(a, b) : b_.CreateAdd(a, b);
    case ReduceOp::kMax:
      return math_.extremum(true, a, b, is_signed(at.dtype));
    case ReduceOp::kMin:
      return math_.extremum(false, a, b, is_signed(at.dtype));
  }
  return a;
}

}  // namespace dynrun::lowering::emit
