// One kernel becomes one function that every thread runs:
//
//   find the row of this thread's group, or leave
//   for each level: compute the row's scalars that the level needs, then one pass over the group's share of the row
//   store the row's results (the group's first thread)
//
// A pass goes over the row in vectors, side by side for the threads of the group. Where the row is short a thread keeps what it
// computed in registers from pass to pass: the pass is unrolled, and a value that an earlier pass computed is simply there.

#include "lowering/gpu/emit.h"
#include "lowering/emit/exact_halves.h"
#include "lowering/emit/levels.h"
#include "lowering/emit/values.h"
#include "lowering/gpu/group.h"

#include <llvm/IR/IntrinsicsNVPTX.h>

#include <algorithm>
#include <functional>

namespace dynrun::lowering::gpu {
namespace {

using c10::ScalarType;
using emit::Level;
using llvm::Value;

constexpr unsigned kGlobal = 1;  // address space

/// `target`: compute capability.
emit::Bfloats bfloats_of(int target) {
  constexpr int kAmpere = 80, kHopper = 90;
  return target >= kHopper ? emit::Bfloats::kArithmetic : target >= kAmpere ? emit::Bfloats::kMulAdd : emit::Bfloats::kNone;
}

using Elements = std::vector<Value*>;  // one value an element of a vector, or one that all share

/// How many operations stand one upon another below each.
std::vector<std::int32_t> heights_of(const Kernel& kernel) {
  std::vector<std::int32_t> heights;
  for (const LoopOp& op : kernel.ops) {  // arguments come before what takes them
    std::int32_t height = 0;
    for (std::int32_t argument : op.arguments) height = std::max(height, heights[static_cast<std::size_t>(argument)] + 1);
    heights.push_back(height);
  }
  return heights;
}

class KernelEmitter : emit::Values {
 public:
  KernelEmitter(const Kernel& form, const CodeShape& shape, int target, llvm::Module& module, const std::string& name)
      : Values(module.getContext(), 1, emit::Machine::kGpu, bfloats_of(target)), kernel_(form), shape_(shape), exact_(kernel_), levels_(emit::levels_of(kernel_)), group_(b_, shape, name) {
    std::vector<llvm::Type*> formals(kernel_.buffers.size(), b_.getPtrTy(kGlobal));
    formals.resize(formals.size() + kernel_.argument_count(), b_.getInt64Ty());
    function_ = llvm::Function::Create(llvm::FunctionType::get(b_.getVoidTy(), formals, false), llvm::Function::ExternalLinkage, name, module);
    function_->addFnAttr(llvm::Attribute::NoUnwind);
    annotate("kernel", 1);
    annotate("maxntidx", static_cast<std::uint32_t>(shape.threads / threads_behind(shape)));
    if (threads_behind(shape) > 1) annotate("maxntidy", static_cast<std::uint32_t>(threads_behind(shape)));
  }

  void emit() {
    b_.SetInsertPoint(llvm::BasicBlock::Create(context_, "entry", function_));
    for (std::size_t i = 0; i < kernel_.argument_count(); ++i) arguments_.push_back(function_->getArg(static_cast<unsigned>(kernel_.buffers.size() + i)));
    group_.start();
    row_.indices.assign(kernel_.dims.size(), nullptr);
    if (shape_.form == Form::kFlat) {
      emit_flat();
    } else if (shape_.form == Form::kTiles) {
      emit_tiles();
    } else {
      emit_rows();
    }
    b_.CreateRetVoid();
  }

 private:
  /// What is known while code for a row, or for one vector of it, is emitted.
  struct Turn {
    bool inner = false;
    std::int64_t row = 0;         // of a tile: turns of the loop around the innermost one from where the thread begins
    std::vector<Value*> indices;  // of every loop; the innermost one's is that of the vector's first element
    Value* mask = nullptr;        // whether its elements exist; null: they do
    std::unordered_map<std::int32_t, Elements> values;  // one an element, or one that all share
  };

  void annotate(const char* what, std::uint32_t number) {
    llvm::Metadata* row[] = {llvm::ConstantAsMetadata::get(function_), llvm::MDString::get(context_, what), llvm::ConstantAsMetadata::get(b_.getInt32(number))};
    function_->getParent()->getOrInsertNamedMetadata("nvvm.annotations")->addOperand(llvm::MDNode::get(context_, row));
  }

  const LoopOp& op(std::int32_t id) const { return kernel_.ops[static_cast<std::size_t>(id)]; }
  llvm::Type* index_type() { return shape_.wide ? b_.getInt64Ty() : b_.getInt32Ty(); }
  Value* position(std::int64_t value) { return llvm::ConstantInt::get(index_type(), static_cast<std::uint64_t>(value), true); }
  /// A number of the kernel, which may be an argument, as an index.
  Value* number(std::int64_t value) {
    return is_argument(value) ? b_.CreateTrunc(arguments_[argument_index(value)], index_type()) : position(value);
  }
  Value* product_of(std::size_t first, std::size_t last) {
    Value* product = position(1);
    for (std::size_t i = first; i < last; ++i) product = b_.CreateMul(product, number(kernel_.dims[i]));
    return product;
  }
  /// The indices of loops [first, last) from how far they have come together.
  void split(Value* flat, std::size_t first, std::size_t last, std::vector<Value*>& indices) {
    for (std::size_t i = last; i-- > first;) {
      Value* size = number(kernel_.dims[i]);
      indices[i] = i == first ? flat : b_.CreateURem(flat, size);
      flat = b_.CreateUDiv(flat, size);
    }
  }

  // ---- memory ---------------------------------------------------------------------------------------------------------------

  bool is_known(std::size_t loop, const Turn& turn) const { return turn.inner || static_cast<std::int32_t>(loop) < kernel_.outer; }

  /// From the first element of a thread to that of a row of its tile.
  Value* distance(const Access& access, const Turn& turn, std::int64_t element) {
    Value* index = position(0);
    const std::size_t last = access.strides.size() - 1;
    if (turn.row != 0 && access.strides[last - 1] != 0 && is_known(last - 1, turn)) index = b_.CreateNSWMul(position(turn.row), number(access.strides[last - 1]));
    if (element != 0 && access.strides[last] != 0) index = b_.CreateNSWAdd(index, b_.CreateNSWMul(position(element), number(access.strides[last])));
    return index;
  }

  /// `there`: whether the element exists, or null. One that does not is the buffer's first.
  Value* address(const Access& access, const Turn& turn, std::int64_t element, Value* there = nullptr) {
    Value* index = position(0);
    for (std::size_t i = 0; i < access.strides.size(); ++i) {
      if (access.strides[i] == 0 || !is_known(i, turn)) continue;
      index = b_.CreateNSWAdd(index, b_.CreateNSWMul(turn.indices[i], number(access.strides[i])));
    }
    // What a thread's addresses differ by comes last: they have the rest in common.
    index = b_.CreateNSWAdd(index, b_.CreateNSWAdd(number(access.offset), distance(access, turn, element)));
    if (there != nullptr) index = b_.CreateSelect(there, index, position(0));
    const LoopBuffer& buffer = kernel_.buffers[static_cast<std::size_t>(access.buffer)];
    return b_.CreateGEP(memory_type(buffer.dtype), function_->getArg(static_cast<unsigned>(access.buffer)), b_.CreateSExt(index, b_.getInt64Ty()));
  }

  Value* load_from(Value* address, llvm::Type* type, std::int64_t bytes, const LoopBuffer& buffer) {
    llvm::LoadInst* load = b_.CreateAlignedLoad(type, address, llvm::Align(static_cast<std::uint64_t>(bytes)));
    if (!buffer.written) load->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(context_, {}));
    return load;
  }

  /// Whether the elements of a turn lie side by side.
  bool is_dense(const Access& access, const Turn& turn) const { return turn.inner && shape_.vector > 1 && access.strides.back() == 1; }

  /// `there`: whether the elements exist, one each or one for all; empty: they do.
  Elements load(const Access& access, const Elements& there, const Turn& turn) {
    const LoopBuffer& buffer = kernel_.buffers[static_cast<std::size_t>(access.buffer)];
    llvm::Type* type = memory_type(buffer.dtype);
    const auto size = static_cast<std::int64_t>(c10::elementSize(buffer.dtype));
    Elements values;
    const std::int64_t count = turn.inner && (access.strides.back() != 0 || there.size() > 1) ? shape_.vector : 1;
    const std::int64_t each = is_dense(access, turn) && there.size() <= 1 ? std::min<std::int64_t>(count, 16 / size) : 1;
    for (std::int64_t element = 0; element < count; element += each) {
      llvm::Type* whole = each == 1 ? type : llvm::FixedVectorType::get(type, static_cast<unsigned>(each));
      Value* exists = there.empty() ? nullptr : there[there.size() == 1 ? 0 : static_cast<std::size_t>(element)];
      Value* loaded = load_from(address(access, turn, element, exists), whole, size * each, buffer);
      for (std::int64_t i = 0; i < each; ++i) {
        Value* one = each == 1 ? loaded : b_.CreateExtractElement(loaded, static_cast<std::uint64_t>(i));
        values.push_back(from_memory(one, buffer.dtype));
      }
    }
    return values;
  }

  void store(const LoopStore& out, llvm::ArrayRef<Value*> values, const Turn& turn) {
    const Access& access = out.access;
    const LoopBuffer& buffer = kernel_.buffers[static_cast<std::size_t>(access.buffer)];
    llvm::Type* type = memory_type(buffer.dtype);
    const auto size = static_cast<std::int64_t>(c10::elementSize(buffer.dtype));
    const std::int64_t count = turn.inner && access.strides.back() != 0 ? shape_.vector : 1;
    const std::int64_t each = is_dense(access, turn) ? std::min<std::int64_t>(count, 16 / size) : 1;
    auto element_of = [&](std::int64_t element) { return to_memory(values[values.size() == 1 ? 0 : static_cast<std::size_t>(element)], op(out.op).dtype, buffer.dtype); };
    for (std::int64_t element = 0; element < count; element += each) {
      Value* out = nullptr;
      if (each == 1) {
        out = element_of(element);
      } else {
        out = llvm::PoisonValue::get(llvm::FixedVectorType::get(type, static_cast<unsigned>(each)));
        for (std::int64_t i = 0; i < each; ++i) out = b_.CreateInsertElement(out, element_of(element + i), static_cast<std::uint64_t>(i));
      }
      b_.CreateAlignedStore(out, address(access, turn, element), llvm::Align(static_cast<std::uint64_t>(size * each)));
    }
  }

  // ---- values ---------------------------------------------------------------------------------------------------------------

  Elements index(const LoopOp& op, const Turn& turn) {
    const auto loop = static_cast<std::size_t>(op.loop);
    Value* at = turn.indices[loop];
    if (turn.row != 0 && loop + 2 == kernel_.dims.size()) at = b_.CreateAdd(at, position(turn.row), "", true, true);
    Value* first = b_.CreateSExt(at, b_.getInt64Ty());
    Elements values = {first};
    if (!turn.inner || loop + 1 != kernel_.dims.size()) return values;
    for (std::int64_t element = 1; element < shape_.vector; ++element) values.push_back(b_.CreateAdd(first, i64(element)));
    return values;
  }

  /// A value of the turn. Those of the row are the row's, computed where all that needs them is behind; a flat thread has no row.
  const Elements& value(std::int32_t id, Turn& turn) {
    const LoopOp& at = op(id);
    Turn& home = at.inner || shape_.form == Form::kFlat || shape_.form == Form::kTiles ? turn : row_;
    if (auto found = home.values.find(id); found != home.values.end()) return found->second;
    Elements made;
    switch (at.kind) {
      case ExpressionKind::kConstant:
        made = {constant(at, false, arguments_)};
        break;
      case ExpressionKind::kLoad:
        made = load(at.access, at.arguments.empty() ? Elements{} : value(at.arguments[0], home), home);
        break;
      case ExpressionKind::kIndex:
        made = index(at, home);
        break;
      case ExpressionKind::kPoint:
        made = point(at, home);
        break;
      case ExpressionKind::kReduce:
        llvm_unreachable("a reduction has its value after its pass");
    }
    return home.values[id] = std::move(made);
  }

  /// Whether an operation rounds to bfloat16 what an operation on bfloat16 numbers gives.
  bool is_bfloat_arithmetic(const LoopOp& at) const {
    if (bfloats_ == emit::Bfloats::kNone || at.op != PointOp::kCast || at.dtype != ScalarType::BFloat16) return false;
    const LoopOp& inner = op(at.arguments[0]);
    if (inner.kind != ExpressionKind::kPoint || inner.dtype != ScalarType::Float) return false;
    if (inner.op != PointOp::kAdd && inner.op != PointOp::kSub && inner.op != PointOp::kMul) return false;
    return exact_.holds(inner.arguments[0], at.dtype) && exact_.holds(inner.arguments[1], at.dtype);
  }

  Elements point(const LoopOp& at, Turn& turn) {
    if (at.op == PointOp::kCast && exact_.holds(at.arguments[0], at.dtype)) return value(at.arguments[0], turn);
    if (is_bfloat_arithmetic(at)) {
      const LoopOp& inner = op(at.arguments[0]);
      return map(inner, turn, [&](llvm::ArrayRef<Value*> operands) { return bfloat_arithmetic(inner.op, operands[0], operands[1]); });
    }
    const ScalarType from = op(at.arguments[0]).dtype;
    return map(at, turn, [&](llvm::ArrayRef<Value*> operands) {
      return at.op == PointOp::kCast ? convert(operands[0], from, at.dtype) : math_.emit(at.op, operands, emit::is_signed(from));
    });
  }

  /// What an operation's arguments give, element by element.
  Elements map(const LoopOp& at, Turn& turn, const std::function<Value*(llvm::ArrayRef<Value*>)>& make) {
    std::size_t count = 1;
    std::vector<Elements> arguments;
    for (std::int32_t argument : at.arguments) {
      arguments.push_back(value(argument, turn));
      count = std::max(count, arguments.back().size());
    }
    Elements values;
    for (std::size_t element = 0; element < count; ++element) {
      llvm::SmallVector<Value*> operands;
      for (const auto& argument : arguments) operands.push_back(argument[argument.size() == 1 ? 0 : element]);
      values.push_back(make(operands));
    }
    return values;
  }

  /// The turn's elements in one number, nothing where they do not exist.
  Value* term(const LoopOp& at, Turn& turn) {
    Elements values = value(at.arguments[0], turn);
    // One that all elements share counts as often as there are elements.
    if (values.size() == 1) values.resize(static_cast<std::size_t>(shape_.vector), values[0]);
    Value* sum = values[0];
    for (std::size_t i = 1; i < values.size(); ++i) sum = combine(at, sum, values[i]);
    return turn.mask == nullptr ? sum : b_.CreateSelect(turn.mask, sum, identity(at, false));
  }

  // ---- control --------------------------------------------------------------------------------------------------------------

  /// Runs `body` where `condition` holds; null: always.
  void where(Value* condition, const std::function<void()>& body) {
    if (condition == nullptr) return body();
    auto* inside = llvm::BasicBlock::Create(context_, "store", function_);
    auto* after = llvm::BasicBlock::Create(context_, "after", function_);
    b_.CreateCondBr(condition, inside, after);
    b_.SetInsertPoint(inside);
    body();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
  }

  void leave_unless(Value* condition) {
    auto* leave = llvm::BasicBlock::Create(context_, "leave", function_);
    auto* stay = llvm::BasicBlock::Create(context_, "stay", function_);
    b_.CreateCondBr(condition, stay, leave);
    b_.SetInsertPoint(leave);
    b_.CreateRetVoid();
    b_.SetInsertPoint(stay);
  }

  Value* as_index(Value* narrow) { return b_.CreateZExt(narrow, index_type()); }

  void emit_flat() {
    Value* flat = b_.CreateAdd(b_.CreateMul(as_index(group_.block()), position(shape_.threads)), as_index(group_.thread()));
    const std::size_t last = kernel_.dims.size() - 1;
    Value* vectors = b_.CreateUDiv(number(kernel_.dims[last]), position(shape_.vector));
    leave_unless(b_.CreateICmpULT(flat, b_.CreateMul(b_.CreateUDiv(product_of(0, last), position(shape_.tile)), vectors)));
    std::vector<Value*> indices(kernel_.dims.size(), nullptr);
    indices[last] = b_.CreateMul(last == 0 ? flat : b_.CreateURem(flat, vectors), position(shape_.vector));
    if (last > 0) split_tiles(b_.CreateUDiv(flat, vectors), last, indices);
    emit_tile(indices);
  }

  /// The indices of the loops around the innermost one from how far a thread's tiles have come.
  void split_tiles(Value* flat, std::size_t last, std::vector<Value*>& indices) {
    if (shape_.tile == 1) return split(flat, 0, last, indices);
    Value* tiles = b_.CreateUDiv(number(kernel_.dims[last - 1]), position(shape_.tile));
    indices[last - 1] = b_.CreateMul(last == 1 ? flat : b_.CreateURem(flat, tiles), position(shape_.tile), "", true, true);
    if (last > 1) split(b_.CreateUDiv(flat, tiles), 0, last - 1, indices);
  }

  /// All of a thread's elements are computed before any is stored: what rows have in common is then loaded once.
  void emit_tile(const std::vector<Value*>& indices) {
    std::vector<Turn> rows(static_cast<std::size_t>(shape_.tile));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].inner = true;
      rows[i].row = static_cast<std::int64_t>(i);
      rows[i].indices = indices;
    }
    load_ahead(rows);
    compute_stored(rows);
    for (Turn& row : rows) {
      for (const LoopStore& out : kernel_.stores) store(out, value(out.op, row), row);
    }
  }

  void compute_stored(std::vector<Turn>& turns) {
    const std::vector<std::int32_t> heights = heights_of(kernel_);
    for (const LoopStore& out : kernel_.stores) compute(out.op, heights, turns);
  }

  bool fills_tiles() const {
    auto fills = [&](std::size_t loop, std::int64_t size) { return !is_argument(kernel_.dims[loop]) && kernel_.dims[loop] % size == 0; };
    return fills(kernel_.dims.size() - 1, shape_.lanes) && fills(static_cast<std::size_t>(shape_.across), shape_.tile * threads_behind(shape_));
  }

  /// The turns of a block's tiles for the threads at their places, or at the turned ones.
  std::vector<Turn> tiles_at(const Group::Place& place, Value* tile_along, Value* tile_across, const std::vector<Value*>& indices) {
    const std::size_t last = kernel_.dims.size() - 1, across = static_cast<std::size_t>(shape_.across);
    std::vector<Turn> turns(static_cast<std::size_t>(shape_.tile));
    Value* along = b_.CreateAdd(b_.CreateMul(tile_along, position(shape_.lanes)), as_index(place.lane));
    for (std::size_t i = 0; i < turns.size(); ++i) {
      Value* tile = b_.CreateAdd(b_.CreateMul(tile_across, position(shape_.tile)), position(static_cast<std::int64_t>(i)));
      Value* beside = b_.CreateAdd(b_.CreateMul(tile, position(threads_behind(shape_))), as_index(place.behind));
      Turn& turn = turns[i];
      turn.inner = true;
      turn.indices = indices;
      turn.indices[last] = along, turn.indices[across] = beside;
      if (fills_tiles()) continue;
      turn.mask = b_.CreateAnd(b_.CreateICmpULT(along, number(kernel_.dims[last])), b_.CreateICmpULT(beside, number(kernel_.dims[across])));
      for (std::size_t loop : {last, across}) turn.indices[loop] = b_.CreateSelect(turn.mask, turn.indices[loop], position(0));
    }
    return turns;
  }

  void emit_tiles() {
    const std::size_t last = kernel_.dims.size() - 1, across = static_cast<std::size_t>(shape_.across);
    auto tiles = [&](std::size_t loop, std::int64_t size) { return b_.CreateUDiv(b_.CreateAdd(number(kernel_.dims[loop]), position(size - 1)), position(size)); };
    Value *along = tiles(last, shape_.lanes), *beside = tiles(across, shape_.tile * threads_behind(shape_));
    Value* block = as_index(group_.block());
    Value* tile_along = b_.CreateURem(block, along);
    block = b_.CreateUDiv(block, along);
    Value* tile_across = b_.CreateURem(block, beside);
    block = b_.CreateUDiv(block, beside);
    std::vector<Value*> indices(kernel_.dims.size(), nullptr);
    for (std::size_t loop = last; loop-- > 0;) {
      if (loop == across) continue;
      indices[loop] = b_.CreateURem(block, number(kernel_.dims[loop]));
      block = b_.CreateUDiv(block, number(kernel_.dims[loop]));
    }
    std::vector<Turn> turns = tiles_at(group_.own(), tile_along, tile_across, indices);
    turned_ = tiles_at(group_.turned(), tile_along, tile_across, indices);
    load_across(turns);
    load_ahead(turns);
    compute_stored(turns);
    for (const LoopStore& out : kernel_.stores) {
      if (stores_across(out)) {
        store_across(out, turns);
        continue;
      }
      for (Turn& turn : turns) where(turn.mask, [&] { store(out, value(out.op, turn), turn); });
    }
  }

  // ---- accesses across ----------------------------------------------------------------------------------------------------

  bool is_read(std::int32_t buffer) const {
    return std::any_of(kernel_.ops.begin(), kernel_.ops.end(), [&](const LoopOp& at) { return at.kind == ExpressionKind::kLoad && at.access.buffer == buffer; });
  }
  /// Other threads than those that compute the elements write them, and sooner than other stores: only where nothing else touches the buffer.
  bool stores_across(const LoopStore& out) const {
    const auto stores = std::count_if(kernel_.stores.begin(), kernel_.stores.end(), [&](const LoopStore& other) { return other.access.buffer == out.access.buffer; });
    return out.inner && !turned_.empty() && lies_across(kernel_, shape_, out.access) && stores == 1 && !is_read(out.access.buffer);
  }

  /// Each thread reads what another needs, in memory's order.
  void load_across(std::vector<Turn>& turns) {
    for (std::size_t i = 0; i < kernel_.ops.size(); ++i) {
      const LoopOp& at = kernel_.ops[i];
      if (at.kind != ExpressionKind::kLoad || !at.inner || !at.arguments.empty() || !lies_across(kernel_, shape_, at.access) || kernel_.buffers[static_cast<std::size_t>(at.access.buffer)].written) continue;
      std::vector<Value*> values;
      for (Turn& turn : turned_) values.push_back(load(at.access, {}, turn)[0]);
      group_.exchange(values, false);
      for (std::size_t turn = 0; turn < turns.size(); ++turn) turns[turn].values[static_cast<std::int32_t>(i)] = {values[turn]};
    }
  }

  /// Each thread writes what others computed, in memory's order.
  void store_across(const LoopStore& out, std::vector<Turn>& turns) {
    std::vector<Value*> values;
    for (Turn& turn : turns) values.push_back(value(out.op, turn)[0]);
    group_.exchange(values, true);
    for (std::size_t i = 0; i < turns.size(); ++i) where(turned_[i].mask, [&] { store(out, values[i], turned_[i]); });
  }

  /// Few loads are made before anything is computed: behind a division or a root, which may branch, the assembler would leave them.
  void load_ahead(std::vector<Turn>& turns) {
    constexpr std::int64_t kMostElements = 64;
    auto is_free = [](const LoopOp& at) { return at.kind == ExpressionKind::kLoad && at.arguments.empty(); };
    std::int64_t elements = 0;
    for (const LoopOp& at : kernel_.ops) elements += is_free(at) ? at.inner && at.access.strides.back() != 0 ? shape_.vector : 1 : 0;
    if (elements * static_cast<std::int64_t>(turns.size()) > kMostElements) return;
    for (std::size_t i = 0; i < kernel_.ops.size(); ++i) {
      if (!is_free(kernel_.ops[i])) continue;
      for (Turn& turn : turns) value(static_cast<std::int32_t>(i), turn);
    }
  }

  /// One operation for all rows after another, what takes the most before it first: a sum waits for no more than the next of its
  /// terms, and few values are alive at once.
  void compute(std::int32_t id, const std::vector<std::int32_t>& heights, std::vector<Turn>& rows) {
    if (rows[0].values.count(id) != 0) return;
    std::vector<std::int32_t> arguments = op(id).arguments;
    std::stable_sort(arguments.begin(), arguments.end(), [&](std::int32_t a, std::int32_t b) { return heights[static_cast<std::size_t>(a)] > heights[static_cast<std::size_t>(b)]; });
    for (std::int32_t argument : arguments) compute(argument, heights, rows);
    for (Turn& row : rows) value(id, row);
  }

  void emit_rows() {
    const auto outer = static_cast<std::size_t>(kernel_.outer);
    Value* rows = product_of(0, outer);
    Value* row = group_.row(index_type());
    Value* exists = nullptr;  // threads of a row that does not exist must not leave while others wait for them
    if (shape_.form == Form::kWarp) leave_unless(b_.CreateICmpULT(row, rows));
    if (shape_.form == Form::kLanes) {
      exists = b_.CreateICmpULT(row, rows);
      row = b_.CreateSelect(exists, row, position(0));
    }
    if (outer > 0) split(row, 0, outer, row_.indices);
    row_length_ = product_of(outer, kernel_.dims.size());
    kept_.resize(static_cast<std::size_t>(shape_.kept));
    for (std::size_t i = 0; i < kept_.size(); ++i) start_turn(kept_[i], group_.vector_at(static_cast<std::int64_t>(i), index_type()), exists);
    if (has_accesses_across()) turn_rows(rows);
    load_across(kept_);
    load_ahead(kept_);
    for (Level& level : levels_) {
      if (level.used()) emit_level(level, exists);
    }
    Value* first = group_.is_first();
    // Their values are computed by all: what a thread leaves out it cannot take part in.
    std::vector<std::pair<const LoopStore*, Elements>> results;
    for (const LoopStore& out : kernel_.stores) {
      if (!out.inner) results.emplace_back(&out, value(out.op, row_));
    }
    if (results.empty()) return;
    where(exists == nullptr ? first : b_.CreateAnd(first, exists), [&] {
      for (const auto& [out, values] : results) store(*out, values, row_);
    });
  }

  bool has_accesses_across() const {
    auto across = [&](const Access& access) { return lies_across(kernel_, shape_, access); };
    return std::any_of(kernel_.ops.begin(), kernel_.ops.end(), [&](const LoopOp& at) { return at.kind == ExpressionKind::kLoad && at.inner && across(at.access); }) ||
           std::any_of(kernel_.stores.begin(), kernel_.stores.end(), [&](const LoopStore& out) { return out.inner && across(out.access); });
  }

  /// The turns of the threads' turned places.
  void turn_rows(Value* rows) {
    const Group::Place place = group_.turned();
    const auto outer = static_cast<std::size_t>(kernel_.outer);
    Value* row = b_.CreateAdd(b_.CreateMul(as_index(group_.block()), position(shape_.lanes)), as_index(place.lane));
    Value* exists = b_.CreateICmpULT(row, rows);
    const std::vector<Value*> own = row_.indices;
    split(b_.CreateSelect(exists, row, position(0)), 0, outer, row_.indices);
    turned_.resize(kept_.size());
    for (std::size_t i = 0; i < turned_.size(); ++i) {
      Value* at = b_.CreateAdd(as_index(place.behind), position(static_cast<std::int64_t>(i) * threads_of_row(shape_)));
      start_turn(turned_[i], at, exists);
    }
    row_.indices = own;
  }

  /// A vector of the row, `at` vectors from its beginning.
  void start_turn(Turn& turn, Value* at, Value* exists) {
    turn.inner = true;
    turn.indices = row_.indices;
    Value* element = b_.CreateMul(at, position(shape_.vector));
    turn.mask = b_.CreateICmpULT(element, row_length_);
    // What does not exist reads the row's first elements.
    element = b_.CreateSelect(turn.mask, element, position(0));
    if (exists != nullptr) turn.mask = b_.CreateAnd(turn.mask, exists);
    split(element, static_cast<std::size_t>(kernel_.outer), kernel_.dims.size(), turn.indices);
  }

  void emit_level(Level& level, Value* exists) {
    for (std::int32_t id : level.row_needs) value(id, row_);
    if (shape_.kept > 0) {
      pass_over_kept(level);
    } else {
      pass_in_loop(level, exists);
    }
    std::vector<Reduced> reduced;
    for (std::int32_t id : level.reductions) reduced.push_back({&op(id), sums_.at(id)});
    group_.reduce(reduced, [&](const LoopOp& at, Value* a, Value* b) { return combine(at, a, b); }, [&](const LoopOp& at) { return identity(at, false); });
    for (std::size_t i = 0; i < reduced.size(); ++i) row_.values[level.reductions[i]] = {reduced[i].value};
  }

  void pass_over_kept(const Level& level) {
    for (std::int32_t id : level.reductions) {
      Value* sum = nullptr;
      for (Turn& turn : kept_) {
        Value* part = term(op(id), turn);
        sum = sum == nullptr ? part : combine(op(id), sum, part);
      }
      sums_[id] = sum;
    }
    for (std::size_t at : level.stores) {
      if (stores_across(kernel_.stores[at])) store_across(kernel_.stores[at], kept_);
    }
    for (Turn& turn : kept_) store_turn(level, turn);
  }

  void store_turn(const Level& level, Turn& turn) {
    std::vector<const LoopStore*> stores;
    for (std::size_t at : level.stores) {
      if (!stores_across(kernel_.stores[at])) stores.push_back(&kernel_.stores[at]);
    }
    for (const LoopStore* out : stores) value(out->op, turn);
    if (stores.empty()) return;
    where(turn.mask, [&] {
      for (const LoopStore* out : stores) store(*out, value(out->op, turn), turn);
    });
  }

  void pass_in_loop(const Level& level, Value* exists) {
    auto* before = b_.GetInsertBlock();
    auto* head = llvm::BasicBlock::Create(context_, "head", function_);
    auto* body = llvm::BasicBlock::Create(context_, "body", function_);
    auto* after = llvm::BasicBlock::Create(context_, "after", function_);
    Value* begin = group_.vector_at(0, index_type());
    b_.CreateBr(head);
    b_.SetInsertPoint(head);
    llvm::PHINode* at = b_.CreatePHI(index_type(), 2);
    at->addIncoming(begin, before);
    std::vector<llvm::PHINode*> sums;
    for (std::int32_t id : level.reductions) {
      sums.push_back(b_.CreatePHI(register_type(op(id).dtype), 2));
      sums.back()->addIncoming(identity(op(id), false), before);
      sums_[id] = sums.back();
    }
    b_.CreateCondBr(b_.CreateICmpULT(b_.CreateMul(at, position(shape_.vector)), row_length_), body, after);
    b_.SetInsertPoint(body);
    Turn turn;
    start_turn(turn, at, exists);
    turn.mask = exists;
    std::vector<Value*> next;
    for (std::size_t i = 0; i < sums.size(); ++i) next.push_back(combine(op(level.reductions[i]), sums[i], term(op(level.reductions[i]), turn)));
    store_turn(level, turn);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i]->addIncoming(next[i], b_.GetInsertBlock());
    at->addIncoming(b_.CreateAdd(at, position(threads_of_row(shape_))), b_.GetInsertBlock());
    b_.CreateBr(head);
    b_.SetInsertPoint(after);
  }

  const Kernel& kernel_;
  CodeShape shape_;
  emit::ExactHalves exact_;
  std::vector<Level> levels_;
  Group group_;
  llvm::Function* function_ = nullptr;
  std::vector<Value*> arguments_;
  Turn row_;
  Value* row_length_ = nullptr;
  std::vector<Turn> kept_, turned_;  // of a row's thread; at the turned places, where accesses lie across
  std::unordered_map<std::int32_t, Value*> sums_;  // of this thread, by reduction
};

}  // namespace

void emit_kernel(const Kernel& form, const CodeShape& shape, int target, llvm::Module& module, const std::string& name) {
  KernelEmitter(form, shape, target, module, name).emit();
}

}  // namespace dynrun::lowering::gpu
