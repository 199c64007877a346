// Runs a Plan. A run takes a Frame (slots) and an arena from pools, so that several threads can run one executable at once;
// what belongs to a run alone (inputs, views of them, fresh buffers) leaves the frame at its end.

#include "runtime/dispatch.h"
#include "runtime/frame.h"
#include "runtime/plan.h"
#include "runtime/undo_log.h"
#ifdef DYNRUN_CUDA
#include "runtime/cuda/graphed_runs.h"

#include <ATen/cuda/EmptyTensor.h>
#endif

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <mutex>

namespace dynrun::runtime {
namespace {

/// The process's arenas: executables that run one after another share one, so a program of many segments needs the largest
/// plan's memory, not the sum.
class ArenaPool {
 public:
  static ArenaPool& instance() {
    static ArenaPool* pool = new ArenaPool;  // outlives executables that die at exit
    return *pool;
  }

  at::Tensor take(std::int64_t bytes) {
    std::lock_guard lock(mutex_);
    for (std::size_t i = free_.size(); i-- > 0;) {
      if (free_[i].numel() < bytes) continue;
      at::Tensor arena = std::move(free_[i]);
      free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
      return arena;
    }
    if (!free_.empty()) {
      // Too small, and about to be replaced. Idle frames may still hold its storage object, but not its memory.
      free_.back().storage().unsafeGetStorageImpl()->set_data_ptr_noswap(at::DataPtr(nullptr, at::kCPU));
      free_.pop_back();
    }
    return at::detail::empty_cpu({bytes}, c10::TensorOptions().dtype(at::kByte));
  }

  void give_back(at::Tensor arena) {
    std::lock_guard lock(mutex_);
    free_.push_back(std::move(arena));
  }

 private:
  std::mutex mutex_;
  std::vector<at::Tensor> free_;
};

class Executor final : public Executable {
 public:
  Executor(Plan plan, std::shared_ptr<const graph::Graph> graph) : plan_(std::move(plan)), graph_(std::move(graph)) {
    for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
      SlotKind kind = plan_.slots[i].kind;
      bool per_run = kind == SlotKind::kInput || kind == SlotKind::kFresh || kind == SlotKind::kMade ||
                     (kind == SlotKind::kView && is_per_run(plan_.slots[i].root));
      if (per_run) per_run_.push_back(static_cast<SlotId>(i));
      if (kind == SlotKind::kInput) inputs_.push_back(static_cast<SlotId>(i));
    }
    for (const Action& action : plan_.actions) (action.step->kind() == StepKind::kKernel ? kernels_ : externs_) += 1;
#ifdef DYNRUN_CUDA
    if (plan_.device.is_cuda() && plan_.repeatable) {
      graphed_ = std::make_unique<cuda::GraphedRuns>(
          plan_, cuda::GraphedRuns::Work{[this](Frame& frame, c10::ArrayRef<at::Tensor> inputs) { begin(frame, inputs); },
                                         [this](Frame& frame, std::size_t first, std::size_t last) { run_actions(frame, first, last); }});
    }
#endif
  }

  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs) override {
    if (!plan_.written_inputs.empty() && overlap(inputs)) return replay(inputs);
    std::unique_ptr<c10::DeviceGuard> device;
    if (!plan_.device.is_cpu()) device = std::make_unique<c10::DeviceGuard>(plan_.device);
#ifdef DYNRUN_CUDA
    if (graphed_) {
      ModeGuard mode(plan_.mode);
      if (std::unique_ptr<Frame> frame = graphed_->run(inputs)) return take_outputs(*frame);
    }
#endif
    std::unique_ptr<Frame> frame = take_frame();
    std::vector<at::Tensor> outputs;
    try {
      outputs = run_in(*frame, inputs);
    } catch (...) {
      give_back(std::move(frame));
      throw;
    }
    give_back(std::move(frame));
    return outputs;
  }

  int kernel_count() const override { return kernels_; }
  int extern_count() const override { return externs_; }
#ifdef DYNRUN_CUDA
  bool looks_only() const override { return graphed_ && graphed_->looks_only(); }
#endif

 private:
  bool is_per_run(SlotId id) const {
    SlotKind kind = plan_.slots[static_cast<std::size_t>(id)].kind;
    return kind != SlotKind::kArena && kind != SlotKind::kConstant;
  }

  std::vector<at::Tensor> run_in(Frame& frame, c10::ArrayRef<at::Tensor> inputs) {
    ModeGuard mode(plan_.mode);
    begin(frame, inputs);
    run_actions(frame, 0, plan_.actions.size());
    return take_outputs(frame);
  }

  /// Without gradients, and below autograd where the plan may be.
  class Below {
   public:
    explicit Below(const Plan& plan) {
      if (plan.below_autograd && !plan.mode.inference) below_.emplace();
    }

   private:
    at::NoGradGuard no_grad_;
    std::optional<at::AutoDispatchBelowADInplaceOrView> below_;
  };

  /// Memory and inputs. Under the plan's mode.
  void begin(Frame& frame, c10::ArrayRef<at::Tensor> inputs) const {
    const Below below(plan_);
    Slots& slots = frame.slots;
    if (plan_.arena_bytes > 0) frame.arena = take_arena();
    const c10::StorageImpl* arena = plan_.arena_bytes > 0 ? frame.arena.storage().unsafeGetStorageImpl() : nullptr;
    if (!frame.built || frame.slots.arena() != arena) build(frame, arena);
    for (SlotId id : inputs_) slots[id] = inputs[static_cast<std::size_t>(plan_.slots[static_cast<std::size_t>(id)].index)];
  }

  /// Actions [first, last). Under the plan's mode.
  void run_actions(Frame& frame, std::size_t first, std::size_t last) const {
    const Below below(plan_);
    Slots& slots = frame.slots;
    for (std::size_t i = first; i < last; ++i) {
      const Action& action = plan_.actions[i];
      for (SlotId id : action.prepare) prepare(slots, id);
      for (auto [from, to] : action.copies) slots[to].copy_(slots[from]);
      action.step->run(slots);
      for (SlotId id : action.release) slots[id] = at::Tensor();
    }
  }

  /// The pool is for the CPU: on other devices libtorch's allocator knows which stream a block is free for.
  at::Tensor take_arena() const {
    if (plan_.device.is_cpu()) return ArenaPool::instance().take(plan_.arena_bytes);
    return at::empty({plan_.arena_bytes}, c10::TensorOptions().dtype(at::kByte).device(plan_.device));
  }

  /// The tensors that stay in a frame from run to run, as long as it meets the same arena.
  void build(Frame& frame, const c10::StorageImpl* arena) const {
    frame.slots.set_arena(arena);
    frame.built = true;
    for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
      const SlotPlan& plan = plan_.slots[i];
      auto id = static_cast<SlotId>(i);
      if (plan.kind == SlotKind::kConstant) frame.slots[id] = plan.constant;
      if (plan.kind == SlotKind::kArena) {
        const auto options = c10::TensorOptions().dtype(plan.type.dtype);
        at::Tensor tensor = plan_.device.is_cpu() ? at::detail::empty_cpu({0}, options) : at::empty({0}, options.device(plan_.device));
        auto element = static_cast<std::int64_t>(c10::elementSize(plan.type.dtype));
        tensor.set_(frame.arena.storage(), plan.arena_offset / element, plan.type.sizes, plan.type.strides);
        frame.slots[id] = tensor;
      }
    }
    for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
      if (plan_.slots[i].kind == SlotKind::kView && !is_per_run(plan_.slots[i].root))
        prepare(frame.slots, static_cast<SlotId>(i));
    }
  }

  void prepare(Slots& slots, SlotId id) const {
    const SlotPlan& plan = plan_.slots[static_cast<std::size_t>(id)];
    if (plan.kind == SlotKind::kView) {
      const at::Tensor& root = slots[plan.root];
      slots[id] = root.as_strided(plan.type.sizes, plan.type.strides, root.storage_offset() + plan.view_offset);
    } else if (plan.kind == SlotKind::kFresh && !slots[id].defined()) {
      slots[id] = empty(plan.type);
    }
  }

  std::vector<at::Tensor> take_outputs(Frame& frame) const {
    std::vector<at::Tensor> outputs;
    outputs.reserve(plan_.outputs.size());
    const c10::StorageImpl* arena = frame.slots.arena();
    for (const OutputPlan& plan : plan_.outputs) {
      if (plan.same_as >= 0) {
        outputs.push_back(outputs[static_cast<std::size_t>(plan.same_as)]);
        continue;
      }
      at::Tensor tensor = plan.slot < 0 ? at::Tensor() : frame.slots[plan.slot];
      if (plan.is_view) {
        if (plan.detach == Detach::kEarlier) tensor = tensor.detach();
        tensor = tensor.as_strided(plan.type.sizes, plan.type.strides, tensor.storage_offset() + plan.view_offset);
        if (plan.detach == Detach::kLast) tensor = tensor.detach();
      }
      // An operator whose schema hides that it returns its argument: never let the arena out.
      if (tensor.defined() && arena != nullptr && tensor.storage().unsafeGetStorageImpl() == arena) tensor = tensor.clone();
      outputs.push_back(std::move(tensor));
    }
    return outputs;
  }

  bool overlap(c10::ArrayRef<at::Tensor> inputs) const {
    for (std::int32_t written : plan_.written_inputs) {
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        if (static_cast<std::int32_t>(i) != written && inputs[i].is_alias_of(inputs[static_cast<std::size_t>(written)]))
          return true;
      }
    }
    return false;
  }

  std::vector<at::Tensor> replay(c10::ArrayRef<at::Tensor> inputs) {
    std::call_once(replayer_once_, [&] { replayer_ = UndoLog::covers(*graph_) ? make_undoing_replayer(graph_) : make_replayer(graph_); });
    return replayer_->run(inputs);
  }

  std::unique_ptr<Frame> take_frame() {
    {
      std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Frame> frame = std::move(idle_.back());
        idle_.pop_back();
        return frame;
      }
    }
    return std::make_unique<Frame>(plan_.slots.size());
  }

  void give_back(std::unique_ptr<Frame> frame) {
    if (!plan_.device.is_cpu()) return;  // its slots hold the arena, which is not kept
    for (SlotId id : per_run_) frame->slots[id] = at::Tensor();
    if (frame->arena.defined()) ArenaPool::instance().give_back(std::exchange(frame->arena, at::Tensor()));
    std::lock_guard lock(mutex_);
    idle_.push_back(std::move(frame));
  }

  Plan plan_;
  std::shared_ptr<const graph::Graph> graph_;
  std::vector<SlotId> per_run_, inputs_;
  int kernels_ = 0, externs_ = 0;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Frame>> idle_;
#ifdef DYNRUN_CUDA
  std::unique_ptr<cuda::GraphedRuns> graphed_;
#endif
  std::once_flag replayer_once_;
  std::unique_ptr<Executable> replayer_;
};

}  // namespace

at::Tensor empty(const graph::TensorType& type) {
  if (type.device.is_cpu()) return at::detail::empty_strided_cpu(type.sizes, type.strides, type.dtype);
#ifdef DYNRUN_CUDA
  if (type.device.is_cuda()) return at::detail::empty_strided_cuda(type.sizes, type.strides, type.dtype, type.device);
#endif
  return at::empty_strided(type.sizes, type.strides, c10::TensorOptions().dtype(type.dtype).device(type.device));
}

std::unique_ptr<Executable> make_executor(Plan plan, std::shared_ptr<const graph::Graph> graph) {
  return std::make_unique<Executor>(std::move(plan), std::move(graph));
}

}  // namespace dynrun::runtime
