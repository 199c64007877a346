#include "lowering/gpu/group.h"

#include <llvm/IR/IntrinsicsNVPTX.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <bit>

namespace dynrun::lowering::gpu {
namespace {

constexpr unsigned kShared = 3;  // address space

/// How a number lies in shared memory: a boolean as a byte.
llvm::Type* shared_type(llvm::IRBuilder<>& b, llvm::Type* type) { return type->isIntegerTy(1) ? b.getInt8Ty() : type; }
llvm::Value* to_shared(llvm::IRBuilder<>& b, llvm::Value* value) {
  llvm::Type* type = shared_type(b, value->getType());
  return type == value->getType() ? value : b.CreateZExt(value, type);
}
llvm::Value* from_shared(llvm::IRBuilder<>& b, llvm::Value* value, llvm::Type* type) { return type == value->getType() ? value : b.CreateTrunc(value, type); }

}  // namespace

void Group::start() {
  auto read = [&](llvm::Intrinsic::ID id) { return b_.CreateIntrinsic(id, {}, {}); };
  block_ = read(llvm::Intrinsic::nvvm_read_ptx_sreg_ctaid_x);
  thread_ = read(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_x);
  if (shape_.form == Form::kLanes || shape_.form == Form::kTiles) behind_ = read(llvm::Intrinsic::nvvm_read_ptx_sreg_tid_y);
}

llvm::Value* Group::row(llvm::Type* type) {
  Value* block = b_.CreateZExt(block_, type);
  auto times = [&](std::int64_t count) { return b_.CreateMul(block, llvm::ConstantInt::get(type, static_cast<std::uint64_t>(count))); };
  if (shape_.form == Form::kWarp) return b_.CreateAdd(times(shape_.threads / kWarpThreads), b_.CreateZExt(b_.CreateLShr(thread_, 5), type));
  if (shape_.form == Form::kLanes) return b_.CreateAdd(times(shape_.lanes), b_.CreateZExt(thread_, type));
  return block;
}

llvm::Value* Group::member() {
  if (shape_.form == Form::kWarp) return b_.CreateAnd(thread_, 31);
  return shape_.form == Form::kLanes ? behind_ : thread_;
}

llvm::Value* Group::vector_at(std::int64_t turn, llvm::Type* type) {
  return b_.CreateAdd(b_.CreateZExt(member(), type), llvm::ConstantInt::get(type, static_cast<std::uint64_t>(turn * threads_of_row(shape_))));
}

llvm::Value* Group::is_first() { return b_.CreateICmpEQ(member(), b_.getInt32(0)); }

/// The value of the lane whose number differs in the bit `distance`.
llvm::Value* Group::shuffle(Value* value, int distance) {
  llvm::Type* type = value->getType();
  const unsigned bits = type->getPrimitiveSizeInBits();
  auto move = [&](Value* word) {
    return b_.CreateIntrinsic(llvm::Intrinsic::nvvm_shfl_sync_bfly_i32, {}, {b_.getInt32(0xffffffff), word, b_.getInt32(static_cast<std::uint32_t>(distance)), b_.getInt32(31)});
  };
  Value* whole = b_.CreateBitCast(value, b_.getIntNTy(bits));
  if (bits <= 32) return b_.CreateBitCast(b_.CreateTrunc(move(b_.CreateZExt(whole, b_.getInt32Ty())), b_.getIntNTy(bits)), type);
  Value* low = move(b_.CreateTrunc(whole, b_.getInt32Ty()));
  Value* high = move(b_.CreateTrunc(b_.CreateLShr(whole, 32), b_.getInt32Ty()));
  return b_.CreateBitCast(b_.CreateOr(b_.CreateZExt(low, b_.getInt64Ty()), b_.CreateShl(b_.CreateZExt(high, b_.getInt64Ty()), 32)), type);
}

llvm::Value* Group::across_warp(const LoopOp& op, Value* value, int lanes, const Combine& combine) {
  for (int distance = lanes / 2; distance >= 1; distance /= 2) value = combine(op, value, shuffle(value, distance));
  return value;
}

llvm::Value* Group::shared(llvm::Type* type, std::int64_t count) {
  auto* array = llvm::ArrayType::get(type, static_cast<std::uint64_t>(count));
  llvm::Module& module = *b_.GetInsertBlock()->getModule();
  auto* memory = new llvm::GlobalVariable(module, array, false, llvm::GlobalValue::InternalLinkage, llvm::UndefValue::get(array),
                                          name_ + "_shared_" + std::to_string(shared_count_++), nullptr, llvm::GlobalValue::NotThreadLocal, kShared);
  memory->setAlignment(llvm::Align(16));
  return memory;
}

void Group::reduce(std::vector<Reduced>& reduced, const Combine& combine, const Identity& identity) {
  if (reduced.empty()) return;
  if (shape_.form == Form::kLanes) return across_lanes(reduced, combine);
  for (Reduced& one : reduced) one.value = across_warp(*one.op, one.value, kWarpThreads, combine);
  if (shape_.form == Form::kBlock && shape_.threads > kWarpThreads) across_block(reduced, combine, identity);
}

Group::Place Group::turned() {
  Value* behind = b_.getInt32(static_cast<std::uint32_t>(threads_behind(shape_)));
  Value* place = b_.CreateAdd(b_.CreateMul(behind_, b_.getInt32(static_cast<std::uint32_t>(shape_.lanes))), thread_);
  return {b_.CreateUDiv(place, behind), b_.CreateURem(place, behind)};
}

void Group::exchange(std::vector<Value*>& values, bool back) {
  constexpr std::int64_t kBytes = 4 * kWarpThreads * (kWarpThreads + 1) * 4;  // four tiles of float32
  llvm::Type* type = shared_type(b_, values[0]->getType());
  const std::int64_t step = threads_behind(shape_) + 1;  // one more: neighbours would wait for the same bank
  const std::int64_t places = shape_.lanes * step, bytes = type->getPrimitiveSizeInBits() / 8;
  const auto at_once = static_cast<std::size_t>(std::max<std::int64_t>(1, kBytes / (places * bytes)));
  const bool first = exchanged_ == nullptr;
  if (first) exchanged_ = shared(b_.getInt64Ty(), std::max<std::int64_t>(kBytes / 8, places));
  auto at = [&](const Place& place, std::size_t turn) {
    Value* index = b_.CreateAdd(b_.CreateMul(place.lane, b_.getInt32(static_cast<std::uint32_t>(step))), place.behind);
    return b_.CreateGEP(type, exchanged_, b_.CreateAdd(index, b_.getInt32(static_cast<std::uint32_t>(places * static_cast<std::int64_t>(turn)))));
  };
  const Place from = back ? own() : turned(), to = back ? turned() : own();
  auto wait = [&] { b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {}); };
  for (std::size_t begin = 0; begin < values.size(); begin += at_once) {
    const std::size_t count = std::min(at_once, values.size() - begin);
    if (!first || begin > 0) wait();  // for those who still read
    for (std::size_t i = 0; i < count; ++i) b_.CreateStore(to_shared(b_, values[begin + i]), at(from, i));
    wait();
    for (std::size_t i = 0; i < count; ++i) values[begin + i] = from_shared(b_, b_.CreateLoad(type, at(to, i)), values[begin + i]->getType());
  }
}

/// Each warp's number goes through shared memory to all warps.
void Group::across_block(std::vector<Reduced>& reduced, const Combine& combine, const Identity& identity) {
  const auto warps = static_cast<int>(shape_.threads / kWarpThreads);
  Value* warp = b_.CreateLShr(thread_, 5);
  Value* lane = b_.CreateAnd(thread_, 31);
  std::vector<Value*> memories;
  // Every lane of a warp holds the same number and may write it.
  for (Reduced& one : reduced) {
    Value* kept = to_shared(b_, one.value);
    memories.push_back(shared(kept->getType(), warps));
    b_.CreateStore(kept, b_.CreateGEP(kept->getType(), memories.back(), warp));
  }
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
  Value* there = b_.CreateICmpULT(lane, b_.getInt32(static_cast<std::uint32_t>(warps)));
  Value* at = b_.CreateSelect(there, lane, b_.getInt32(0));
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    llvm::Type* type = shared_type(b_, reduced[i].value->getType());
    Value* part = from_shared(b_, b_.CreateLoad(type, b_.CreateGEP(type, memories[i], at)), reduced[i].value->getType());
    part = b_.CreateSelect(there, part, identity(*reduced[i].op));
    reduced[i].value = across_warp(*reduced[i].op, part, kWarpThreads, combine);
  }
}

/// The threads of a warp that have one row bring their numbers together, then the warps.
void Group::across_lanes(std::vector<Reduced>& reduced, const Combine& combine) {
  const std::int64_t warps = shape_.threads / kWarpThreads;
  for (Reduced& one : reduced) {
    for (int distance = kWarpThreads / 2; distance >= shape_.lanes; distance /= 2) one.value = combine(*one.op, one.value, shuffle(one.value, distance));
  }
  if (warps == 1) return;
  Value* warp = b_.CreateLShr(behind_, static_cast<std::uint64_t>(std::countr_zero(static_cast<std::uint64_t>(kWarpThreads / shape_.lanes))));
  std::vector<Value*> memories;
  auto at = [&](llvm::Type* type, Value* memory, Value* place) {
    return b_.CreateGEP(type, memory, b_.CreateAdd(b_.CreateMul(place, b_.getInt32(static_cast<std::uint32_t>(shape_.lanes))), thread_));
  };
  for (Reduced& one : reduced) {
    Value* kept = to_shared(b_, one.value);
    memories.push_back(shared(kept->getType(), warps * shape_.lanes));
    b_.CreateStore(kept, at(kept->getType(), memories.back(), warp));
  }
  b_.CreateIntrinsic(llvm::Intrinsic::nvvm_barrier0, {}, {});
  for (std::size_t i = 0; i < reduced.size(); ++i) {
    llvm::Type* type = shared_type(b_, reduced[i].value->getType());
    Value* sum = nullptr;
    for (std::int64_t place = 0; place < warps; ++place) {
      Value* loaded = b_.CreateLoad(type, at(type, memories[i], b_.getInt32(static_cast<std::uint32_t>(place))));
      Value* part = from_shared(b_, loaded, reduced[i].value->getType());
      sum = sum == nullptr ? part : combine(*reduced[i].op, sum, part);
    }
    reduced[i].value = sum;
  }
}

}  // namespace dynrun::lowering::gpu
