// One kernel becomes one function:
//
//   for unit in [begin, end): find the row's indices
//     for each level: compute the row's scalars that the level needs, then one pass over the row
//     store the row's results
//
// A pass over the row is a vector loop, then the rest under a mask. With `vector_rows` the lanes are rows: everything is a
// vector, the inner loops are scalar, and the mask cuts the last rows.

#include "lowering/cpu/emit.h"
#include "lowering/emit/exact_halves.h"
#include "lowering/emit/levels.h"
#include "lowering/emit/values.h"

#include <functional>
#include <set>

namespace dynrun::lowering::cpu {
namespace {

using c10::ScalarType;
using emit::is_heavy;
using emit::is_signed;
using emit::Level;
using llvm::Value;

class KernelEmitter : emit::Values {
 public:
  KernelEmitter(const Compilation& kernel, const Target& target, llvm::Module& module, const std::string& name)
      : Values(module.getContext(), target.float_lanes(), emit::Machine::kCpu), kernel_(*kernel.form), module_(module), shape_(kernel.shape), exact_(kernel_), levels_(emit::levels_of(kernel_)) {
    auto* type = llvm::FunctionType::get(b_.getVoidTy(), {b_.getPtrTy(), b_.getInt64Ty(), b_.getInt64Ty(), b_.getPtrTy()}, false);
    function_ = llvm::Function::Create(type, llvm::Function::ExternalLinkage, name, module_);
    function_->addFnAttr("prefer-vector-width", std::to_string(target.vector_bits));
    function_->addFnAttr("min-legal-vector-width", std::to_string(target.vector_bits));
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    find_scratch();
  }

  void emit() {
    entry_ = llvm::BasicBlock::Create(context_, "entry", function_);
    b_.SetInsertPoint(entry_);
    for (std::size_t i = 0; i < kernel_.buffers.size(); ++i) {
      buffers_.push_back(b_.CreateLoad(b_.getPtrTy(), b_.CreateConstGEP1_64(b_.getPtrTy(), function_->getArg(0), i)));
    }
    load_arguments();
    if (shape_.has_blocks) blocks_ = b_.CreateUDiv(b_.CreateAdd(number(kernel_.dims.back()), i64(kBlock - 1)), i64(kBlock));
    make_accumulators();
    loop(function_->getArg(1), function_->getArg(2), 1, [&](Value* unit) { emit_unit(unit); });
    b_.CreateRetVoid();
  }

 private:
  /// What is known while code for a row, or for one turn of the inner loop, is emitted.
  struct Turn {
    bool inner = false;
    std::vector<Value*> indices;  // of every loop; the vectorised one's first lane
    Value* mask = nullptr;        // lanes that exist; null: all
    std::unordered_map<std::int32_t, Value*> values;
    int unroll = 0;  // which copy of an unrolled body
  };

  const LoopOp& op(std::int32_t id) const { return kernel_.ops[static_cast<std::size_t>(id)]; }
  std::size_t vector_loop() const {
    return kernel_.vector_rows ? static_cast<std::size_t>(kernel_.outer) - 1 : kernel_.dims.size() - 1;
  }
  /// A number of the kernel, which may be an argument.
  Value* number(std::int64_t value) { return is_argument(value) ? arguments_[argument_index(value)] : i64(value); }

  void load_arguments() {
    for (std::size_t i = 0; i < kernel_.argument_count(); ++i) {
      arguments_.push_back(b_.CreateLoad(b_.getInt64Ty(), b_.CreateConstGEP1_64(b_.getInt64Ty(), function_->getArg(3), i)));
    }
  }

  // ---- analysis -------------------------------------------------------------------------------------------------------------

  /// Values that one pass computes at some cost and a later pass needs again are kept for the row in scratch memory.
  void find_scratch() {
    if (!shape_.keeps_values) return;
    std::set<std::int32_t> computed;
    for (const Level& level : levels_) {
      std::set<std::int32_t> here;
      for (std::int32_t id : emit::roots(kernel_, level)) walk_again(id, computed, here);
      computed.insert(here.begin(), here.end());
    }
  }

  void walk_again(std::int32_t id, const std::set<std::int32_t>& computed, std::set<std::int32_t>& here) {
    if (!op(id).inner || !here.insert(id).second) return;
    if (computed.count(id) != 0 && op(id).kind == ExpressionKind::kPoint && op(id).dtype != ScalarType::Bool && cost(id) >= 4) {
      scratch_.emplace(id, nullptr);
      return;
    }
    for (std::int32_t argument : op(id).arguments) walk_again(argument, computed, here);
  }

  int cost(std::int32_t id) const {
    const LoopOp& at = op(id);
    if (!at.inner) return 0;
    if (at.kind == ExpressionKind::kLoad) return 1;
    int sum = at.kind == ExpressionKind::kPoint && is_heavy(at.op) ? 8 : at.op == PointOp::kDiv ? 2 : 0;
    for (std::int32_t argument : at.arguments) sum += std::min(cost(argument), 100);
    return sum;
  }

  bool is_vector(const Turn& turn) const { return kernel_.vector_rows || turn.inner; }

  // ---- memory ---------------------------------------------------------------------------------------------------------------

  Value* address(const Access& access, const Turn& turn) {
    Value* index = number(access.offset);
    for (std::size_t i = 0; i < access.strides.size(); ++i) {
      bool known = turn.inner || static_cast<std::int32_t>(i) < kernel_.outer;
      if (access.strides[i] == 0 || !known) continue;
      index = b_.CreateAdd(index, b_.CreateMul(turn.indices[i], number(access.strides[i])));
    }
    const LoopBuffer& buffer = kernel_.buffers[static_cast<std::size_t>(access.buffer)];
    return b_.CreateGEP(memory_type(buffer.dtype), buffers_[static_cast<std::size_t>(access.buffer)], index);
  }

  Value* lane_addresses(Value* base, std::int64_t stride, llvm::Type* element) {
    return b_.CreateGEP(element, base, b_.CreateMul(lane_numbers(), splat(number(stride))));
  }

  llvm::Constant* lane_numbers() {
    std::vector<llvm::Constant*> steps;
    for (std::int64_t lane = 0; lane < lanes_; ++lane)
      steps.push_back(llvm::ConstantInt::get(b_.getInt64Ty(), static_cast<std::uint64_t>(lane)));
    return llvm::ConstantVector::get(steps);
  }

  Value* full_mask(const Turn& turn) { return turn.mask != nullptr ? turn.mask : splat(b_.getTrue()); }

  /// `there`: whether the elements exist, or null. Those that do not are any number.
  Value* load(const Access& access, Value* there, const Turn& turn) {
    if (there != nullptr) return load_where(access, there, turn);
    ScalarType dtype = kernel_.buffers[static_cast<std::size_t>(access.buffer)].dtype;
    llvm::Type* element = memory_type(dtype);
    llvm::Align align(c10::elementSize(dtype));
    Value* base = address(access, turn);
    std::int64_t stride = access.strides[vector_loop()];
    if (!is_vector(turn)) return from_memory(b_.CreateAlignedLoad(element, base, align), dtype);
    if (stride == 0) return splat(from_memory(b_.CreateAlignedLoad(element, base, align), dtype));
    llvm::Type* type = widen(element, true);
    Value* value = nullptr;
    if (stride == 1) {
      value = turn.mask == nullptr ? static_cast<Value*>(b_.CreateAlignedLoad(type, base, align))
                                   : b_.CreateMaskedLoad(type, base, align, turn.mask, llvm::Constant::getNullValue(type));
    } else {
      value = b_.CreateMaskedGather(type, lane_addresses(base, stride, element), align, full_mask(turn),
                                    llvm::Constant::getNullValue(type));
    }
    return from_memory(value, dtype);
  }

  Value* load_where(const Access& access, Value* there, const Turn& turn) {
    ScalarType dtype = kernel_.buffers[static_cast<std::size_t>(access.buffer)].dtype;
    llvm::Type* element = memory_type(dtype);
    llvm::Align align(c10::elementSize(dtype));
    Value* base = address(access, turn);
    if (!is_vector(turn)) {
      Value* first = buffers_[static_cast<std::size_t>(access.buffer)];
      return from_memory(b_.CreateAlignedLoad(element, b_.CreateSelect(there, base, first), align), dtype);
    }
    llvm::Type* type = widen(element, true);
    Value* mask = turn.mask == nullptr ? there : b_.CreateAnd(turn.mask, there);
    llvm::Constant* nothing = llvm::Constant::getNullValue(type);
    const std::int64_t stride = access.strides[vector_loop()];
    return from_memory(stride == 1 ? b_.CreateMaskedLoad(type, base, align, mask, nothing) : b_.CreateMaskedGather(type, lane_addresses(base, stride, element), align, mask, nothing), dtype);
  }

  void store(const LoopStore& out, Value* value, const Turn& turn) {
    const Access& access = out.access;
    ScalarType dtype = kernel_.buffers[static_cast<std::size_t>(access.buffer)].dtype;
    llvm::Align align(c10::elementSize(dtype));
    Value* base = address(access, turn);
    value = to_memory(value, op(out.op).dtype, dtype);
    std::int64_t stride = access.strides[vector_loop()];
    if (!is_vector(turn)) {
      b_.CreateAlignedStore(value, base, align);
      return;
    }
    if (!value->getType()->isVectorTy()) value = splat(value);
    if (stride == 1 && turn.mask == nullptr) {
      b_.CreateAlignedStore(value, base, align);
    } else if (stride == 1) {
      b_.CreateMaskedStore(value, base, align, turn.mask);
    } else {
      b_.CreateMaskedScatter(value, lane_addresses(base, stride, memory_type(dtype)), align, full_mask(turn));
    }
  }

  // ---- values ---------------------------------------------------------------------------------------------------------------

  Value* index(const LoopOp& at, const Turn& turn) {
    auto loop_index = static_cast<std::size_t>(at.loop);
    Value* first = turn.indices[loop_index];
    if (!is_vector(turn)) return first;
    if (loop_index != vector_loop()) return splat(first);
    return b_.CreateAdd(splat(first), lane_numbers());
  }

  /// A value in the turn's form. Row values are asked of the row and spread over the lanes.
  Value* value(std::int32_t id, Turn& turn) {
    if (auto found = turn.values.find(id); found != turn.values.end()) return found->second;
    const LoopOp& at = op(id);
    Value* result = nullptr;
    if (at.kind == ExpressionKind::kConstant) {
      result = constant(at, is_vector(turn), arguments_);
    } else if (turn.inner && !at.inner) {
      result = spread_.at(id);
    } else if (auto kept = scratch_.find(id); turn.inner && kept != scratch_.end() && kept->second != nullptr) {
      result = load_scratch(at, kept->second, turn);
    } else {
      result = compute(id, at, turn);
    }
    turn.values.emplace(id, result);
    return result;
  }

  Value* compute(std::int32_t id, const LoopOp& at, Turn& turn) {
    switch (at.kind) {
      case ExpressionKind::kLoad:
        return load(at.access, at.arguments.empty() ? nullptr : value(at.arguments[0], turn), turn);
      case ExpressionKind::kIndex:
        return index(at, turn);
      case ExpressionKind::kPoint: {
        llvm::SmallVector<Value*> arguments;
        for (std::int32_t argument : at.arguments) arguments.push_back(value(argument, turn));
        ScalarType from = op(at.arguments[0]).dtype;
        Value* result = at.op != PointOp::kCast                  ? math_.emit(at.op, arguments, is_signed(from))
                        : exact_.holds(at.arguments[0], at.dtype) ? arguments[0]
                                                                  : convert(arguments[0], from, at.dtype);
        if (turn.inner && scratch_.count(id) != 0) store_scratch(id, result, turn);
        return result;
      }
      default:
        llvm_unreachable("reductions are values of the row");
    }
  }

  Value* scratch_address(Value* memory, const LoopOp& at, const Turn& turn) {
    Value* position = turn.indices.back();
    if (kernel_.vector_rows) position = b_.CreateMul(position, i64(lanes_));
    return b_.CreateGEP(register_type(at.dtype), memory, position);
  }

  void store_scratch(std::int32_t id, Value* value, const Turn& turn) {
    const LoopOp& at = op(id);
    Value*& memory = scratch_memory_[id];
    if (memory == nullptr) {
      llvm::IRBuilder<> top(entry_, entry_->begin());
      const std::int64_t row = kernel_.dims.back(), longest = kLongestKeptRow / (kernel_.vector_rows ? lanes_ : 1);
      auto room = static_cast<std::uint64_t>(((is_argument(row) ? longest : row) + lanes_) * (kernel_.vector_rows ? lanes_ : 1));
      auto* slot = top.CreateAlloca(llvm::ArrayType::get(register_type(at.dtype), room));
      slot->setAlignment(llvm::Align(64));
      memory = slot;
    }
    // Past the row's end there is room: no mask.
    b_.CreateAlignedStore(value, scratch_address(memory, at, turn), llvm::Align(c10::elementSize(compute_type(at.dtype))));
  }

  Value* load_scratch(const LoopOp& at, Value* memory, const Turn& turn) {
    return b_.CreateAlignedLoad(widen(register_type(at.dtype), true), scratch_address(memory, at, turn),
                                llvm::Align(c10::elementSize(compute_type(at.dtype))));
  }

  // ---- reductions -----------------------------------------------------------------------------------------------------------
  //
  // A long sum is made of short ones: at most kTerms terms are added up in a register before it goes into a total of float64. One
  // register for all would lose a digit for every tenfold of terms.

  void make_accumulators() {
    for (std::size_t i = 0; i < kernel_.ops.size(); ++i) {
      const LoopOp& at = kernel_.ops[i];
      if (at.kind != ExpressionKind::kReduce) continue;
      auto& slots = accumulators_[static_cast<std::int32_t>(i)];
      for (int copy = 0; copy < shape_.unroll; ++copy) slots.push_back(b_.CreateAlloca(widen(register_type(at.dtype), true)));
      const bool is_long = terms_of(static_cast<std::size_t>(kernel_.outer)) != kFewTerms;
      if (is_long && at.reduce == ReduceOp::kSum && c10::isFloatingType(at.dtype)) totals_[static_cast<std::int32_t>(i)] = b_.CreateAlloca(widen(b_.getDoubleTy(), true));
    }
  }

  static constexpr std::int64_t kTerms = 64;
  enum Terms : std::uint8_t { kFewTerms, kManyTerms };

  /// How many terms one turn of the loop adds to a register; 0 where they have gone into the total by its end.
  std::int64_t terms_in_turn(std::size_t loop_index) const {
    if (loop_index + 1 == kernel_.dims.size()) return 1;
    return terms_of(loop_index + 1) == kManyTerms ? 0 : turns(loop_index + 1) * terms_in_turn(loop_index + 1);
  }
  /// Of the innermost loop each turn takes so many vectors as there are registers.
  std::int64_t turns(std::size_t loop_index) const {
    const std::int64_t size = kernel_.dims[loop_index];
    const bool by_vectors = loop_index + 1 == kernel_.dims.size() && !kernel_.vector_rows;
    return by_vectors ? size / (lanes_ * shape_.unroll) + shape_.unroll : size;
  }
  Terms terms_of(std::size_t loop_index) const {
    if (is_argument(kernel_.dims[loop_index])) return kManyTerms;
    const std::int64_t inside = terms_in_turn(loop_index);
    return inside == 0 || inside * turns(loop_index) > kTerms ? kManyTerms : kFewTerms;
  }

  /// What stands in the registers goes into the totals.
  void flush(const Level& level) {
    for (std::int32_t id : level.reductions) {
      auto total = totals_.find(id);
      if (total == totals_.end()) continue;
      llvm::Type* wide = widen(b_.getDoubleTy(), true);
      b_.CreateStore(b_.CreateFAdd(b_.CreateLoad(wide, total->second), widened(registers_sum(id))), total->second);
      for (Value* slot : accumulators_[id]) b_.CreateStore(identity(op(id), true), slot);
    }
  }

  Value* widened(Value* value) { return value->getType()->getScalarType()->isDoubleTy() ? value : b_.CreateFPExt(value, widen(b_.getDoubleTy(), true)); }

  Value* registers_sum(std::int32_t id) {
    Value* sum = nullptr;
    for (Value* slot : accumulators_[id]) {
      Value* part = b_.CreateLoad(widen(register_type(op(id).dtype), true), slot);
      sum = sum == nullptr ? part : combine(op(id), sum, part);
    }
    return sum;
  }

  /// A loop over what is reduced, in pieces of at most kTerms terms. `terms`: of a turn.
  void reducing_loop(Value* begin, Value* end, std::int64_t step, std::int64_t terms, bool in_pieces, const Level& level, const std::function<void(Value*)>& body) {
    if (!in_pieces || terms == 0 || std::none_of(level.reductions.begin(), level.reductions.end(), [&](std::int32_t id) { return totals_.count(id) != 0; }))
      return loop(begin, end, step, body);
    const std::int64_t piece = step * std::max<std::int64_t>(kTerms / terms, 1);
    loop(begin, end, piece, [&](Value* first) {
      loop(first, b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(first, i64(piece)), end), step, body);
      flush(level);
    });
  }

  void accumulate(std::int32_t id, Turn& turn) {
    const LoopOp& at = op(id);
    Value* term = value(at.arguments[0], turn);
    Value* slot = accumulators_[id][static_cast<std::size_t>(turn.unroll)];
    if (turn.mask != nullptr && !kernel_.vector_rows) term = b_.CreateSelect(turn.mask, term, identity(at, true));
    b_.CreateStore(combine(at, b_.CreateLoad(term->getType(), slot), term), slot);
  }

  /// After a pass: one number a row (or a vector of rows' numbers).
  Value* finish(std::int32_t id) {
    const LoopOp& at = op(id);
    llvm::Type* type = register_type(at.dtype);
    Value* sum = registers_sum(id);
    if (auto total = totals_.find(id); total != totals_.end()) sum = b_.CreateFAdd(b_.CreateLoad(widen(b_.getDoubleTy(), true), total->second), widened(sum));
    if (kernel_.vector_rows) return sum->getType()->getScalarType() == type ? sum : b_.CreateFPTrunc(sum, widen(type, true));
    for (std::int64_t half = lanes_ / 2; half >= 1; half /= 2) {
      std::vector<int> upper(static_cast<std::size_t>(lanes_), 0);
      for (std::int64_t lane = 0; lane < half; ++lane) upper[static_cast<std::size_t>(lane)] = static_cast<int>(lane + half);
      sum = combine(at, sum, b_.CreateShuffleVector(sum, upper));
    }
    Value* number = b_.CreateExtractElement(sum, std::uint64_t{0});
    return number->getType() == type ? number : b_.CreateFPTrunc(number, type);
  }

  // ---- loops ----------------------------------------------------------------------------------------------------------------

  void loop(Value* begin, Value* end, std::int64_t step, const std::function<void(Value*)>& body) {
    auto* before = b_.GetInsertBlock();
    auto* head = llvm::BasicBlock::Create(context_, "head", function_);
    auto* inside = llvm::BasicBlock::Create(context_, "body", function_);
    auto* after = llvm::BasicBlock::Create(context_, "after", function_);
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode* index = b_.CreatePHI(b_.getInt64Ty(), 2);
    index->addIncoming(begin, before);
    b_.CreateCondBr(b_.CreateICmpSLT(index, end), inside, after);
    b_.SetInsertPoint(inside);
    body(index);
    index->addIncoming(b_.CreateAdd(index, i64(step)), b_.GetInsertBlock());
    b_.CreateBr(head);
    b_.SetInsertPoint(after);
  }

  void emit_unit(Value* unit) {
    Turn row;
    row.indices.assign(kernel_.dims.size(), nullptr);
    spread_.clear();
    for (auto& [id, memory] : scratch_) memory = nullptr;
    Value* rest = unit;
    auto take = [&](Value* count) {
      Value* index = b_.CreateURem(rest, count);
      rest = b_.CreateUDiv(rest, count);
      return index;
    };
    Value* block = shape_.has_blocks ? take(blocks_) : nullptr;
    for (std::size_t loop_index = static_cast<std::size_t>(kernel_.outer); loop_index-- > 0;) {
      std::int64_t size = kernel_.dims[loop_index];
      if (kernel_.vector_rows && loop_index == vector_loop()) {
        row.indices[loop_index] = b_.CreateMul(take(b_.CreateUDiv(b_.CreateAdd(number(size), i64(lanes_ - 1)), i64(lanes_))), i64(lanes_));
        if (is_argument(size) || size % lanes_ != 0) row.mask = lane_mask(row.indices[loop_index], number(size));
      } else {
        row.indices[loop_index] = take(number(size));
      }
    }
    for (Level& level : levels_) {
      if (level.used()) emit_level(level, row, block);
    }
    for (const LoopStore& out : kernel_.stores) {
      if (!out.inner) store(out, value(out.op, row), row);
    }
  }

  Value* lane_mask(Value* first, Value* end) {
    std::vector<llvm::Constant*> steps;
    for (std::int64_t lane = 0; lane < lanes_; ++lane)
      steps.push_back(llvm::ConstantInt::get(b_.getInt32Ty(), static_cast<std::uint64_t>(lane)));
    Value* left = b_.CreateTrunc(b_.CreateSub(end, first), b_.getInt32Ty());
    return b_.CreateICmpSLT(llvm::ConstantVector::get(steps), splat(left));
  }

  void emit_level(Level& level, Turn& row, Value* block) {
    for (std::int32_t id : level.row_needs) {
      if (spread_.count(id) != 0) continue;
      Value* one = value(id, row);
      spread_[id] = one->getType()->isVectorTy() ? one : splat(one);
    }
    for (std::int32_t id : level.reductions) {
      for (Value* slot : accumulators_[id]) b_.CreateStore(identity(op(id), true), slot);
      if (auto total = totals_.find(id); total != totals_.end()) b_.CreateStore(llvm::Constant::getNullValue(widen(b_.getDoubleTy(), true)), total->second);
    }
    std::vector<Value*> indices = row.indices;
    inner_loops(static_cast<std::size_t>(kernel_.outer), indices, row, level, block);
    for (std::int32_t id : level.reductions) row.values[id] = finish(id);
    for (auto& [id, memory] : scratch_memory_) scratch_[id] = memory;
  }

  void inner_loops(std::size_t loop_index, std::vector<Value*>& indices, const Turn& row, Level& level, Value* block) {
    std::int64_t size = kernel_.dims[loop_index];
    bool last = loop_index + 1 == kernel_.dims.size();
    if (last && !kernel_.vector_rows) return vector_pass(indices, level, block);
    reducing_loop(i64(0), number(size), 1, terms_in_turn(loop_index), terms_of(loop_index) == kManyTerms, level, [&](Value* index) {
      indices[loop_index] = index;
      if (last) {
        emit_body(indices, row.mask, level, 0);
      } else {
        inner_loops(loop_index + 1, indices, row, level, block);
      }
    });
  }

  void vector_pass(std::vector<Value*>& indices, Level& level, Value* block) {
    std::int64_t size = kernel_.dims.back();
    Value* begin = i64(0);
    Value* end = number(size);
    if (block != nullptr) {
      begin = b_.CreateMul(block, i64(kBlock));
      end = b_.CreateBinaryIntrinsic(llvm::Intrinsic::smin, b_.CreateAdd(begin, i64(kBlock)), end);
    }
    const auto copies = static_cast<int>(shape_.unroll);
    std::int64_t stride = lanes_ * copies;
    Value* whole = b_.CreateAdd(begin, b_.CreateMul(b_.CreateSDiv(b_.CreateSub(end, begin), i64(stride)), i64(stride)));
    const bool in_pieces = terms_of(kernel_.dims.size() - 1) == kManyTerms;
    reducing_loop(begin, whole, stride, 1, in_pieces, level, [&](Value* index) {
      for (int copy = 0; copy < copies; ++copy) {
        indices.back() = copy == 0 ? index : b_.CreateAdd(index, i64(copy * lanes_));
        emit_body(indices, nullptr, level, copy);
      }
    });
    if (!is_argument(size) && size % stride == 0 && (block == nullptr || kBlock % stride == 0)) return;
    loop(whole, end, lanes_, [&](Value* index) {
      indices.back() = index;
      emit_body(indices, lane_mask(index, end), level, 0);
    });
    if (in_pieces) flush(level);
  }

  void emit_body(const std::vector<Value*>& indices, Value* mask, Level& level, int copy) {
    Turn turn;
    turn.inner = true;
    turn.indices = indices;
    turn.mask = mask;
    turn.unroll = copy;
    for (std::int32_t id : level.reductions) accumulate(id, turn);
    for (std::size_t at : level.stores) store(kernel_.stores[at], value(kernel_.stores[at].op, turn), turn);
  }

  const Kernel& kernel_;
  llvm::Module& module_;
  CodeShape shape_;
  emit::ExactHalves exact_;
  std::vector<Level> levels_;
  llvm::Function* function_ = nullptr;
  llvm::BasicBlock* entry_ = nullptr;
  std::vector<Value*> buffers_, arguments_;
  Value* blocks_ = nullptr;  // pieces of the innermost loop
  std::unordered_map<std::int32_t, std::vector<Value*>> accumulators_;
  std::unordered_map<std::int32_t, Value*> totals_;   // of long sums
  std::unordered_map<std::int32_t, Value*> spread_;   // row values over all lanes
  std::unordered_map<std::int32_t, Value*> scratch_;  // values kept for the row; null until a pass has written them
  std::unordered_map<std::int32_t, Value*> scratch_memory_;
};

}  // namespace

void emit_kernel(const Compilation& kernel, const Target& target, llvm::Module& module, const std::string& name) {
  KernelEmitter(kernel, target, module, name).emit();
}

}  // namespace dynrun::lowering::cpu
