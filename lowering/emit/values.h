#pragma once
// What both code generators say of single values in LLVM IR: types in registers and in memory, conversions, constants, the
// operators of reductions. A value is a scalar, or a vector of so many lanes.

#include "lowering/emit/math.h"
#include "lowering/loops/loop.h"

#include <llvm/IR/IRBuilder.h>

namespace dynrun::lowering::emit {

bool is_signed(c10::ScalarType dtype);
/// A function of many instructions.
bool is_heavy(PointOp op);

/// What instructions a machine has for pairs of bfloat16: none, those that round floats to them and that multiply and add, all.
enum class Bfloats : std::uint8_t { kNone, kMulAdd, kArithmetic };

class Values {
 public:
  /// `lanes`: of vectors. `machine`: the one that runs the code.
  Values(llvm::LLVMContext& context, std::int64_t lanes, Machine machine, Bfloats bfloats = Bfloats::kNone);

 protected:
  using Value = llvm::Value;
  using ScalarType = c10::ScalarType;

  llvm::Type* register_type(ScalarType dtype);
  llvm::Type* memory_type(ScalarType dtype);
  llvm::Type* widen(llvm::Type* scalar, bool vector) {
    return vector ? llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes_)) : scalar;
  }
  Value* splat(Value* scalar) { return b_.CreateVectorSplat(static_cast<unsigned>(lanes_), scalar); }
  Value* i64(std::int64_t value) { return b_.getInt64(static_cast<std::uint64_t>(value)); }

  Value* from_memory(Value* value, ScalarType dtype);
  /// `from`: what the value is of; a half type's is rounded already.
  Value* to_memory(Value* value, ScalarType from, ScalarType dtype);
  Value* convert(Value* value, ScalarType from, ScalarType to);
  /// a + b, a - b or a * b of bfloat16 numbers, rounded to one.
  Value* bfloat_arithmetic(PointOp op, Value* a, Value* b);
  /// `arguments`: those that the kernel's form names, as int64.
  Value* constant(const LoopOp& at, bool vector, llvm::ArrayRef<Value*> arguments);
  llvm::Constant* identity(const LoopOp& at, bool vector);
  Value* combine(const LoopOp& at, Value* a, Value* b);
  Value* sum(Value* total, Value* term);

  llvm::LLVMContext& context_;
  llvm::IRBuilder<> b_;
  Math math_;
  std::int64_t lanes_;
  Machine machine_;
  Bfloats bfloats_;

 private:
  Value* rounded_to_bfloat(Value* value);
  Value* bfloat_bits(Value* value);
  Value* half_of(Value* value);
  Value* float_of_half(Value* value);
  Value* argument_constant(const LoopOp& at, bool vector, llvm::ArrayRef<Value*> arguments);
};

}  // namespace dynrun::lowering::emit
