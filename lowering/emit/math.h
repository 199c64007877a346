#pragma once
// Elementwise mathematics as LLVM IR, for scalars and vectors alike. float32 functions are polynomials good to a few units in
// the last place over the whole range, special values included; float64 goes to libm, lane by lane. For GPUs both are libdevice's.

#include "lowering/loops/operators.h"

#include <llvm/IR/IRBuilder.h>

namespace dynrun::lowering::emit {

enum class Machine : std::uint8_t { kCpu, kGpu };

class Math {
 public:
  Math(llvm::IRBuilder<>& builder, Machine machine) : b_(builder), machine_(machine) {}

  /// `is_signed` tells int8..int64 from uint8; booleans are i1.
  llvm::Value* emit(PointOp op, llvm::ArrayRef<llvm::Value*> arguments, bool is_signed);
  /// torch's maximum and minimum: NaN wins.
  llvm::Value* extremum(bool maximum, llvm::Value* a, llvm::Value* b, bool is_signed);

  /// Names and addresses of the libm functions that generated code may call.
  static llvm::ArrayRef<std::pair<const char*, void*>> libm_functions();

 private:
  using Value = llvm::Value;
  Value* number(Value* like, double value) const { return llvm::ConstantFP::get(like->getType(), value); }
  llvm::Type* integer_type(Value* like) const;
  Value* integer(Value* like, std::int64_t value) const {
    return llvm::ConstantInt::get(integer_type(like), static_cast<std::uint64_t>(value), true);
  }
  Value* fma(Value* a, Value* b, Value* c);
  Value* polynomial(Value* x, llvm::ArrayRef<double> coefficients);
  Value* call(llvm::Intrinsic::ID id, Value* a);
  /// `name`: libm's. libdevice has the same ones under names of its own.
  Value* library_call(const char* name, llvm::ArrayRef<Value*> arguments);
  Value* power_of_two(Value* n);
  Value* exp(Value* x);
  Value* expm1(Value* x);
  Value* log(Value* x);
  Value* log1p(Value* x);
  Value* large_tanh(Value* x);
  Value* tanh(Value* x);
  Value* rsqrt(Value* x);
  Value* erf(Value* x);
  Value* float_unary(PointOp op, Value* x);
  Value* arithmetic(PointOp op, Value* a, Value* b, bool is_signed);
  Value* comparison(PointOp op, Value* a, Value* b, bool is_signed);

  llvm::IRBuilder<>& b_;
  Machine machine_;
};

}  // namespace dynrun::lowering::emit
