#pragma once
// The threads that share a row: who a thread is among them, and how they bring their numbers together.

#include "lowering/gpu/launch.h"

#include <llvm/IR/IRBuilder.h>

#include <functional>

namespace dynrun::lowering::gpu {

/// A reduction of a row: a thread's part of it, then the whole in every thread of the group.
struct Reduced {
  const LoopOp* op;
  llvm::Value* value;
};

class Group {
 public:
  using Value = llvm::Value;
  using Combine = std::function<Value*(const LoopOp&, Value*, Value*)>;
  using Identity = std::function<Value*(const LoopOp&)>;

  /// `name`: of the kernel; its shared memory is named after it.
  Group(llvm::IRBuilder<>& builder, const CodeShape& shape, std::string name) : b_(builder), shape_(shape), name_(std::move(name)) {}

  /// At the function's entry.
  void start();
  Value* block() const { return block_; }
  Value* thread() const { return thread_; }
  /// The group's row, which may be beyond the last.
  Value* row(llvm::Type* type);
  /// This thread's vector of the row in its turn number `turn`.
  Value* vector_at(std::int64_t turn, llvm::Type* type);
  /// Whether this thread is the group's first; null: it is alone.
  Value* is_first();
  /// kTiles, kLanes: where this thread stands in a block whose threads are counted the other way: so many places behind each other are side
  /// by side, and `lanes` of them behind each other.
  struct Place {
    Value *lane, *behind;
  };
  Place own() const { return {thread_, behind_}; }
  Place turned();
  /// One number a turn each: those of the turned places to the own ones, or back. All threads of the block have to come here together.
  void exchange(std::vector<Value*>& values, bool back);
  /// All threads of the block have to come here together.
  void reduce(std::vector<Reduced>& reduced, const Combine& combine, const Identity& identity);

 private:
  Value* member();
  Value* shuffle(Value* value, int distance);
  Value* across_warp(const LoopOp& op, Value* value, int lanes, const Combine& combine);
  void across_block(std::vector<Reduced>& reduced, const Combine& combine, const Identity& identity);
  void across_lanes(std::vector<Reduced>& reduced, const Combine& combine);
  Value* shared(llvm::Type* type, std::int64_t count);

  llvm::IRBuilder<>& b_;
  CodeShape shape_;
  std::string name_;
  Value *block_ = nullptr, *thread_ = nullptr, *behind_ = nullptr;
  int shared_count_ = 0;
  Value* exchanged_ = nullptr;  // memory for exchanges
};

}  // namespace dynrun::lowering::gpu
