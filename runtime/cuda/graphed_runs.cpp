#include "runtime/cuda/graphed_runs.h"

#include "runtime/cuda/driver.h"
#include "runtime/cuda/graph_memsets.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <ATen/cuda/EmptyTensor.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/empty.h>
#include <c10/cuda/CUDAGuard.h>

#include <limits>
#include <map>

namespace dynrun::runtime::cuda {
namespace {

constexpr int kRunsBefore = 2;      // libraries choose and allocate in the first; what moves about shows in the second
constexpr int kMostCaptures = 6;    // of one plan, for inputs that come to lie elsewhere
constexpr std::int64_t kMostCopied = std::int64_t{64} << 20;  // bytes a run
constexpr std::size_t kMostBehind = 2;                         // actions behind a graph

}  // namespace

/// All graphs of a device share their memory, so they run one after the other, whichever streams they are launched on.
class Turnstile {
 public:
  static Turnstile& of(c10::DeviceIndex device) {
    static std::mutex mutex;
    static auto* all = new std::map<c10::DeviceIndex, Turnstile>;  // outlives graphs that are launched at exit
    std::lock_guard lock(mutex);
    return (*all)[device];
  }

  std::recursive_mutex mutex;

  /// False where this stream cannot be made to wait for the last graph's.
  bool enter(const c10::cuda::CUDAStream& stream) {
    if (!last_ || *last_ == stream) return true;
    if (!recorded_ && is_capturing(*last_)) return false;
    if (!recorded_) done_.record(*last_);
    done_.block(stream);
    return true;
  }
  void leave(const c10::cuda::CUDAStream& stream) {
    last_ = stream;
    recorded_ = !lives_on(stream);
    if (recorded_) done_.record(stream);
  }

  /// Where graphs are captured. It is nobody else's: libraries keep a workspace for each stream that they have run on, and the one
  /// that a graph uses may be no other work's.
  c10::cuda::CUDAStream aside(c10::DeviceIndex device) {
    if (!aside_) {
      cudaStream_t stream = nullptr;
      C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      aside_ = c10::cuda::getStreamFromExternal(stream, device);
    }
    return *aside_;
  }

  /// The memory for one more graph. A pool that its last graph has left is libtorch's to take apart.
  at::cuda::MempoolId_t add_graph() {
    if (graphs_++ == 0) pool_ = at::cuda::graph_pool_handle();
    return pool_;
  }
  void remove_graph() { --graphs_; }

 private:
  /// Streams of libtorch's, which are never destroyed: what the last graph is behind can be asked of them when another stream needs to
  /// know. (Recording an event at each run takes longer than the launch.) Ids of others are even: see c10/cuda/CUDAStream.cpp.
  static bool lives_on(const c10::cuda::CUDAStream& stream) { return stream.id() == 0 || stream.id() % 2 != 0; }
  static bool is_capturing(const c10::cuda::CUDAStream& stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(stream, &status) != cudaSuccess || status != cudaStreamCaptureStatusNone;
  }

  at::cuda::CUDAEvent done_;
  bool recorded_ = false;  // `done_`, since the last graph
  std::optional<c10::cuda::CUDAStream> last_, aside_;
  at::cuda::MempoolId_t pool_{0, 0};
  int graphs_ = 0;
};

/// A graph and its part in the device's memory.
struct PooledGraph {
  explicit PooledGraph(Turnstile& place) : turnstile(place), pool(place.add_graph()) { graph.emplace(true); }  // kept: its nodes are asked for later
  PooledGraph(const PooledGraph&) = delete;
  PooledGraph& operator=(const PooledGraph&) = delete;
  ~PooledGraph() {
    std::lock_guard lock(turnstile.mutex);
    graph.reset();
    turnstile.remove_graph();
  }

  Turnstile& turnstile;
  at::cuda::MempoolId_t pool;
  std::optional<at::cuda::CUDAGraph> graph;
};

namespace {

/// What operators warn of at each run cannot be captured. libtorch itself warns of captures in which nothing ran on the device.
class CaptureWarnings final : public c10::WarningHandler {
 public:
  void process(const c10::Warning&) override { any = true; }
  bool any = false;
};

bool is_empty(at::cuda::CUDAGraph& graph) {
  std::size_t count = 0;
  C10_CUDA_CHECK(cudaGraphGetNodes(graph.raw_cuda_graph(), nullptr, &count));
  return count == 0;
}

/// After a capture that failed: the generator's note that it is being captured goes with the next capture that ends well.
void end_failed_capture(PooledGraph& failed, const c10::cuda::CUDAStream& stream, bool begun) {
  const c10::cuda::CUDAStreamGuard guard(stream);
  try {
    if (begun) failed.graph->capture_end();
  } catch (const std::exception&) {
  }
  cudaGetLastError();
  at::Tensor some = at::empty({1}, c10::TensorOptions().dtype(at::kFloat).device(stream.device()));
  at::cuda::CUDAGraph next;
  next.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  some.zero_();
  next.capture_end();
}

/// The bytes from a tensor's first to its last element.
std::size_t extent_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  std::int64_t elements = 1;
  for (std::int64_t i = 0; i < tensor.dim(); ++i) elements += (tensor.size(i) - 1) * tensor.stride(i);
  return static_cast<std::size_t>(elements) * tensor.element_size();
}

/// Whether nobody but a Python object owns the tensor. Another owner takes the GIL, which must not be waited for under the locks here.
bool is_borrowed(const at::Tensor& tensor) { return tensor.defined() && tensor.use_count() == 1 && tensor.unsafeGetTensorImpl()->pyobj_slot()->load_pyobj() != nullptr; }

/// The same memory without owning it.
at::Tensor alias_of(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return tensor;
  return at::for_blob(const_cast<void*>(tensor.const_data_ptr()), tensor.sizes()).strides(tensor.strides()).target_device(tensor.device()).options(tensor.options()).make_tensor();
}

at::Tensor empty_as(const at::Tensor& tensor) {
  return at::detail::empty_strided_cuda(tensor.sizes(), tensor.strides(), tensor.scalar_type(), tensor.device());
}

}  // namespace

GraphedRuns::~GraphedRuns() = default;

GraphedRuns::GraphedRuns(const Plan& plan, Work work) : plan_(plan), work_(std::move(work)) {
  for (const OutputPlan& output : plan_.outputs) {
    if (output.slot >= 0 && output.same_as < 0 && std::find(results_.begin(), results_.end(), output.slot) == results_.end()) results_.push_back(output.slot);
  }
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
    if (plan_.slots[i].kind != SlotKind::kInput) continue;
    input_slots_.resize(std::max(input_slots_.size(), static_cast<std::size_t>(plan_.slots[i].index) + 1));
    input_slots_[static_cast<std::size_t>(plan_.slots[i].index)] = i;
  }
  gives_inputs_ = std::any_of(results_.begin(), results_.end(), [&](SlotId slot) { return plan_.slots[static_cast<std::size_t>(slot)].kind == SlotKind::kInput; });
  find_patchable();
  find_tail();
}

/// Looks where the inputs lie. Whether one that the graph reads in its place has left it.
bool GraphedRuns::is_new_address(c10::ArrayRef<at::Tensor> inputs) {
  bool differs = addresses_.size() != inputs.size();
  addresses_.resize(inputs.size());
  moves_.resize(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const void* address = inputs[i].const_data_ptr();
    if (addresses_[i] == address) continue;
    if (can_patch_[input_slots_[i]]) {
      elsewhere_.push_back(i);
    } else if (!moves_[i]) {
      moves_[i] = addresses_[i] != nullptr;
      differs = true;
    }
    addresses_[i] = address;
  }
  return differs;
}

std::unique_ptr<Frame> GraphedRuns::run(c10::ArrayRef<at::Tensor> inputs) {
  if (c10::cuda::currentStreamCaptureStatusMayInitCtx() != c10::cuda::CaptureStatus::None) return nullptr;
  std::lock_guard lock(mutex_);
  if (given_up_) return nullptr;
  const bool differs = is_new_address(inputs);
  if (runs_ < kRunsBefore) {
    ++runs_;
    return nullptr;
  }
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream(plan_.device.index());
  Turnstile& turnstile = Turnstile::of(plan_.device.index());
  std::lock_guard turn(turnstile.mutex);
  if (!turnstile.enter(stream)) return nullptr;
  if (graph_ == nullptr || differs) {
    if (std::any_of(inputs.begin(), inputs.end(), is_borrowed)) {
      drop_graph();  // the next run owns its inputs
      return nullptr;
    }
    given_up_ = ++captures_ > kMostCaptures || !capture(inputs);
  }
  if (given_up_) {
    drop_graph();
    return nullptr;
  }
  if (!place_inputs(inputs)) return nullptr;
  std::unique_ptr<Frame> frame = prepare_results(inputs);
  if (frame == nullptr) return nullptr;
  update_launches();
  graph_->graph->replay();
  try {
    run_tail(*frame, inputs);
  } catch (const std::exception&) {
    turnstile.leave(stream);
    throw;
  }
  turnstile.leave(stream);
  return frame;
}

void GraphedRuns::drop_graph() {
  ready_ = false;
  captured_.reset();
  graph_.reset();
  launches_.clear();
  copies_in_.clear();
  copies_out_.clear();
  places_.clear();
  tail_reads_.clear();
  moving_.reset();
}

bool GraphedRuns::capture(c10::ArrayRef<at::Tensor> inputs) {
  if (try_capture(inputs)) return true;
  if (moved_ < 0) return false;
  moved_ = -1;  // the tail runs behind the graph
  return try_capture(inputs);
}

bool GraphedRuns::try_capture(c10::ArrayRef<at::Tensor> inputs) {
  drop_graph();
  std::vector<at::Tensor> given(inputs.begin(), inputs.end());
  places_.assign(inputs.size(), at::Tensor());
  std::size_t copied = 0;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!moves_[i]) continue;
    copied += extent_of(inputs[i]);
    places_[i] = empty_as(inputs[i]);
    given[i] = places_[i];
  }
  if (copied > static_cast<std::size_t>(kMostCopied)) return false;
  auto frame = std::make_unique<Frame>(plan_.slots.size());
  auto pooled = std::make_unique<PooledGraph>(Turnstile::of(plan_.device.index()));
  LaunchLog log;
  const c10::cuda::CUDAStream outside = c10::cuda::getCurrentCUDAStream(plan_.device.index());
  const c10::cuda::CUDAStream aside = pooled->turnstile.aside(plan_.device.index());
  at::cuda::CUDAEvent before;
  before.record(outside);
  before.block(aside);
  bool begun = false;
  CaptureWarnings warnings;
  const c10::WarningUtils::WarningHandlerGuard kept_back(&warnings);
  try {
    const c10::cuda::CUDAStreamGuard guard(aside);
    pooled->graph->capture_begin(pooled->pool, cudaStreamCaptureModeThreadLocal);
    begun = true;
    capture_work(*frame, inputs, given, aside);
    if (warnings.any) throw std::runtime_error("an operator warns");
    begun = false;
    pooled->graph->capture_end();
    if (is_empty(*pooled->graph)) return false;
    if (moved_ >= 0) moving_.emplace(tail_ends_);
    replace_memsets(pooled->graph->raw_cuda_graph(), plan_.device.index());
    pooled->graph->instantiate();
  } catch (const std::exception& error) {
    // Something that cannot be captured.
    if (std::getenv("DYNRUN_DEBUG") != nullptr) std::fprintf(stderr, "dynrun: a CUDA graph was not captured: %s\n", error.what());
    end_failed_capture(*pooled, aside, begun);
    return false;
  }
  if (!can_hand_out(*frame, given)) return false;
  if (moved_ < 0) note_tail_reads(*frame);
  // The memory between inputs and results is the next graph's too.
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
    const auto slot = static_cast<SlotId>(i);
    if (!is_copied_out(slot)) frame->slots[slot] = at::Tensor();
  }
  frame->arena = at::Tensor();
  captured_ = std::move(frame);
  graph_ = std::move(pooled);
  elsewhere_.clear();
  note_patches(std::move(log.launches));
  ready_ = true;
  return true;
}

/// Inputs into their places, the plan's work, results out of the graph's memory.
void GraphedRuns::capture_work(Frame& frame, c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> given, const c10::Stream& stream) {
  auto* handle = static_cast<CUstream>(stream.native_handle());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!moves_[i] || extent_of(inputs[i]) == 0) continue;
    copies_in_.emplace_back(i, capture_copy(places_[i].mutable_data_ptr(), inputs[i].const_data_ptr(), extent_of(inputs[i]), handle));
  }
  work_.begin(frame, given);
  work_.run(frame, 0, tail_);
  for (SlotId slot : results_) {
    const at::Tensor& result = frame.slots[slot];
    if (!is_copied_out(slot) || !result.defined() || result.layout() != c10::kStrided || extent_of(result) == 0) continue;
    const at::Tensor some = empty_as(result);
    copies_out_.emplace_back(slot, capture_copy(some.mutable_data_ptr(), result.const_data_ptr(), extent_of(result), handle));
  }
  if (moved_ >= 0) capture_tail(frame, handle);
}

/// The tail's one action, once for each address that its result may lie at.
void GraphedRuns::capture_tail(Frame& frame, CUstream stream) {
  const graph::TensorType& type = plan_.slots[static_cast<std::size_t>(moved_)].type;
  const Slots before = frame.slots;  // the action releases some
  tail_ends_[0] = last_captured(stream);
  for (std::size_t i = 0; i < MovableCall::kCaptures; ++i) {
    void* address = reinterpret_cast<void*>(MovableCall::kAddresses[i]);
    frame.slots = before;
    frame.slots[moved_] = at::for_blob(address, type.sizes).strides(type.strides).target_device(type.device).options(at::TensorOptions(type.dtype).device(type.device)).make_tensor();
    work_.run(frame, tail_, plan_.actions.size());
    TORCH_CHECK(frame.slots[moved_].const_data_ptr() == address, "a library chose where its result lies");
    tail_ends_[i + 1] = last_captured(stream);
  }
}

/// Results that lie in the graph's own memory.
bool GraphedRuns::is_copied_out(SlotId slot) const {
  const SlotKind kind = plan_.slots[static_cast<std::size_t>(slot)].kind;
  return kind != SlotKind::kInput && kind != SlotKind::kConstant && !tail_makes_[static_cast<std::size_t>(slot)] && !can_patch_[static_cast<std::size_t>(slot)] && std::find(results_.begin(), results_.end(), slot) != results_.end();
}

/// Slots of inputs and results that nothing but generated kernels touches.
void GraphedRuns::find_patchable() {
  can_patch_.assign(plan_.slots.size(), false);
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) can_patch_[i] = plan_.slots[i].kind == SlotKind::kInput || plan_.slots[i].kind == SlotKind::kFresh;
  for (const Action& action : plan_.actions) {
    if (action.step->kind() != StepKind::kKernel) {
      for (SlotId slot : action.touches) can_patch_[static_cast<std::size_t>(slot)] = false;
    }
    for (auto [from, to] : action.copies) can_patch_[static_cast<std::size_t>(from)] = can_patch_[static_cast<std::size_t>(to)] = false;
  }
}

/// Which actions run behind the graph: the last ones, where the graph would have to copy large results of theirs.
void GraphedRuns::find_tail() {
  constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();
  tail_ = plan_.actions.size();
  tail_makes_.assign(plan_.slots.size(), false);
  std::vector<std::size_t> begins(plan_.slots.size(), kNever);  // by slot: the first action that touches it
  for (std::size_t i = plan_.actions.size(); i-- > 0;) {
    for (SlotId slot : plan_.actions[i].touches) begins[static_cast<std::size_t>(slot)] = i;
  }
  std::int64_t copied = 0;
  const std::size_t least = plan_.actions.size() - std::min(kMostBehind, plan_.actions.size());
  for (std::size_t first = plan_.actions.size(); first-- > std::max<std::size_t>(least, 1);) {
    if (!can_be_tail(first, begins)) return;
    for (SlotId slot : results_) {
      if (begins[static_cast<std::size_t>(slot)] != first || !is_copied_out(slot)) continue;
      const graph::TensorType& type = plan_.slots[static_cast<std::size_t>(slot)].type;
      if (!type.unsized) copied += type.element_count() * static_cast<std::int64_t>(c10::elementSize(type.dtype));
    }
    if (copied < kLargeResult) continue;
    tail_ = first;
    for (std::size_t i = 0; i < begins.size(); ++i) tail_makes_[i] = begins[i] != kNever && begins[i] >= first && plan_.slots[i].kind != SlotKind::kInput && plan_.slots[i].kind != SlotKind::kConstant;
    moved_ = movable_result();
    return;
  }
}

/// Whether the actions from `first` on make nothing but memory of their own, and read what stays where the graph left it.
bool GraphedRuns::can_be_tail(std::size_t first, const std::vector<std::size_t>& begins) const {
  for (std::size_t i = first; i < plan_.actions.size(); ++i) {
    const Action& action = plan_.actions[i];
    if (!action.step->makes_own_memory() || !action.copies.empty()) return false;
    for (SlotId slot : action.touches) {
      const auto at = static_cast<std::size_t>(slot);
      const SlotKind kind = plan_.slots[at].kind;
      if (kind == SlotKind::kConstant || kind == SlotKind::kMade) continue;
      const bool stays = kind == SlotKind::kFresh ? begins[at] >= first : kind == SlotKind::kInput ? !can_patch_[at] : begins[at] < first;
      if (!stays) return false;
    }
  }
  return true;
}

/// The one value that the tail makes, by one library's call into memory that it is given; else -1.
SlotId GraphedRuns::movable_result() const {
  if (tail_ + 1 != plan_.actions.size() || plan_.actions[tail_].step->kind() != StepKind::kLibrary) return -1;
  const auto made = std::find(tail_makes_.begin(), tail_makes_.end(), true);
  if (made == tail_makes_.end() || std::count(tail_makes_.begin(), tail_makes_.end(), true) != 1) return -1;
  const auto slot = static_cast<SlotId>(made - tail_makes_.begin());
  return plan_.slots[static_cast<std::size_t>(slot)].kind == SlotKind::kFresh ? slot : -1;
}

/// Values from before the tail, and views of them. Inputs are the run's.
void GraphedRuns::note_tail_reads(const Frame& frame) {
  std::vector<bool> read(plan_.slots.size(), false);
  for (std::size_t i = tail_; i < plan_.actions.size(); ++i) {
    for (SlotId slot : plan_.actions[i].touches) read[static_cast<std::size_t>(slot)] = true;
  }
  tail_reads_.clear();
  for (std::size_t i = 0; i < plan_.slots.size(); ++i) {
    const SlotPlan& plan = plan_.slots[i];
    const std::size_t root = plan.kind == SlotKind::kView ? static_cast<std::size_t>(plan.root) : i;
    const at::Tensor& tensor = frame.slots[static_cast<SlotId>(i)];
    if (read[root] && plan.kind != SlotKind::kInput && tensor.defined()) tail_reads_.emplace_back(static_cast<SlotId>(i), alias_of(tensor));
  }
}

void GraphedRuns::run_tail(Frame& frame, c10::ArrayRef<at::Tensor> inputs) {
  if (tail_ == plan_.actions.size() || moved_ >= 0) return;
  for (const auto& [slot, tensor] : tail_reads_) {
    if (!frame.slots[slot].defined()) frame.slots[slot] = tensor;
  }
  for (std::size_t i = tail_; i < plan_.actions.size(); ++i) {
    for (SlotId slot : plan_.actions[i].touches) {
      const SlotPlan& plan = plan_.slots[static_cast<std::size_t>(slot)];
      if (plan.kind == SlotKind::kInput && !frame.slots[slot].defined()) frame.slots[slot] = alias_of(inputs[static_cast<std::size_t>(plan.index)]);
    }
  }
  work_.run(frame, tail_, plan_.actions.size());
}

/// Which launches are given which slots' addresses.
void GraphedRuns::note_patches(std::vector<CapturedLaunch> launches) {
  launches_ = std::move(launches);
  changed_.assign(launches_.size(), false);
  patches_.assign(plan_.slots.size(), {});
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    for (std::size_t j = 0; j < launches_[i].launch.slots.size(); ++j) {
      const auto slot = static_cast<std::size_t>(launches_[i].launch.slots[j]);
      if (can_patch_[slot]) patches_[slot].push_back({i, j});
    }
  }
}

/// False where the tensor lies where the captured kernels cannot read it.
bool GraphedRuns::patch(SlotId slot, const at::Tensor& tensor) {
  auto* address = const_cast<void*>(tensor.const_data_ptr());
  for (const Patch& patch : patches_[static_cast<std::size_t>(slot)]) {
    Launch& launch = launches_[patch.launch].launch;
    if (launch.aligned && reinterpret_cast<std::uintptr_t>(address) % kAlignment != 0) return false;
    if (launch.pointers[patch.pointer] == address) continue;
    launch.pointers[patch.pointer] = address;
    changed_[patch.launch] = true;
  }
  return true;
}

/// The copy's node is given new addresses where they are new.
void GraphedRuns::move(CapturedCopy& copy, void* to, const void* from) {
  if (copy.to == to && copy.from == from) return;
  const CapturedCopy moved{copy.node, to, from, copy.bytes};
  moved.update(reinterpret_cast<CUgraphExec>(graph_->graph->raw_cuda_graph_exec()));
  copy = moved;
}

void GraphedRuns::update_launches() {
  for (std::size_t i = 0; i < launches_.size(); ++i) {
    if (!changed_[i]) continue;
    launches_[i].update(reinterpret_cast<CUgraphExec>(graph_->graph->raw_cuda_graph_exec()));
    changed_[i] = false;
  }
}

/// The inputs' addresses where the graph needs them. False where one cannot be read there.
bool GraphedRuns::place_inputs(c10::ArrayRef<at::Tensor> inputs) {
  bool readable = true;
  for (std::size_t i : elsewhere_) {
    if (patch(static_cast<SlotId>(input_slots_[i]), inputs[i])) continue;
    addresses_[i] = nullptr;  // looked at again by the next run
    readable = false;
  }
  elsewhere_.clear();
  for (auto& [input, copy] : copies_in_) move(copy, copy.to, inputs[input].const_data_ptr());
  return readable;
}

/// Results that share memory with one another, with an input or with the arena would not do so as copies.
bool GraphedRuns::can_hand_out(const Frame& frame, c10::ArrayRef<at::Tensor> inputs) const {
  for (std::size_t i = 0; i < results_.size(); ++i) {
    const SlotKind kind = plan_.slots[static_cast<std::size_t>(results_[i])].kind;
    if (kind == SlotKind::kInput || kind == SlotKind::kConstant || tail_makes_[static_cast<std::size_t>(results_[i])]) continue;
    const at::Tensor& result = frame.slots[results_[i]];
    if (!result.defined() || !result.has_storage() || result.layout() != c10::kStrided) return false;
    if (frame.arena.defined() && result.is_alias_of(frame.arena)) return false;
    for (const at::Tensor& input : inputs) {
      if (result.is_alias_of(input)) return false;
    }
    for (std::size_t j = 0; j < i; ++j) {
      if (!tail_makes_[static_cast<std::size_t>(results_[j])] && result.is_alias_of(frame.slots[results_[j]])) return false;
    }
  }
  return true;
}

/// A frame whose slots hold the inputs that are results, and memory for the other results. Null where a kernel cannot write there.
std::unique_ptr<Frame> GraphedRuns::prepare_results(c10::ArrayRef<at::Tensor> inputs) {
  auto frame = std::make_unique<Frame>(plan_.slots.size());
  const at::NoGradGuard no_grad;
  std::optional<at::AutoDispatchBelowADInplaceOrView> below;
  if (plan_.below_autograd && !plan_.mode.inference) below.emplace();
  for (SlotId slot : results_) {
    const SlotPlan& plan = plan_.slots[static_cast<std::size_t>(slot)];
    if (slot == moved_) {
      frame->slots[slot] = empty(plan.type);
      const auto address = reinterpret_cast<std::uint64_t>(frame->slots[slot].mutable_data_ptr());
      if (address % MovableCall::kAlignment != 0) return nullptr;
      moving_->move(reinterpret_cast<CUgraphExec>(graph_->graph->raw_cuda_graph_exec()), address);
      continue;
    }
    if (tail_makes_[static_cast<std::size_t>(slot)]) continue;
    if (plan.kind == SlotKind::kInput) {
      frame->slots[slot] = inputs[static_cast<std::size_t>(plan.index)];
    } else if (plan.kind == SlotKind::kConstant) {
      frame->slots[slot] = plan.constant;
    } else {
      frame->slots[slot] = plan.kind == SlotKind::kFresh ? empty(plan.type) : empty_as(captured_->slots[slot]);
      if (can_patch_[static_cast<std::size_t>(slot)] && !patch(slot, frame->slots[slot])) return nullptr;
    }
  }
  for (auto& [slot, copy] : copies_out_) move(copy, frame->slots[slot].mutable_data_ptr(), copy.from);
  return frame;
}

}  // namespace dynrun::runtime::cuda
