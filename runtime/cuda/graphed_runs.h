#pragma once
// Runs of a plan as one launch: its actions captured in a CUDA graph.
//
// A graph holds addresses. An input that lies where it lay when the graph was made is read there; one that moves about is copied
// into a place of the graph's own. Results leave in memory of their own: the graph's is written again by its next run. Where only
// generated kernels touch an input or a result, nothing is copied: they are given its address before the launch. So is a library's
// product that makes a large result at the very end, where its kernels tell how they come by the address (movable_call.h); else it runs
// behind the graph, into memory of the run's own.

#include "runtime/cuda/launch.h"
#include "runtime/cuda/movable_call.h"
#include "runtime/frame.h"
#include "runtime/plan.h"

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

namespace dynrun::runtime::cuda {

constexpr std::int64_t kLargeResult = std::int64_t{16} << 20;  // bytes: copying them takes longer than a launch

struct PooledGraph;

class GraphedRuns {
 public:
  /// How the plan is run in a frame.
  struct Work {
    std::function<void(Frame&, c10::ArrayRef<at::Tensor>)> begin;         // memory, and these inputs
    std::function<void(Frame&, std::size_t first, std::size_t last)> run;  // actions [first, last)
  };

  /// The plan outlives this.
  GraphedRuns(const Plan& plan, Work work);
  ~GraphedRuns();

  /// A frame whose slots hold what outputs are made of. Null where this run has to be made action by action: the first ones,
  /// those that are being captured by somebody else, and all of a plan that cannot be captured.
  std::unique_ptr<Frame> run(c10::ArrayRef<at::Tensor> inputs);
  /// Whether there is a graph for the next run, which then does no more with its inputs than look where they lie.
  bool looks_only() const { return ready_ && !gives_inputs_; }

 private:
  bool is_new_address(c10::ArrayRef<at::Tensor> inputs);
  bool capture(c10::ArrayRef<at::Tensor> inputs);
  bool try_capture(c10::ArrayRef<at::Tensor> inputs);
  void capture_tail(Frame& frame, CUstream stream);
  SlotId movable_result() const;
  void capture_work(Frame& frame, c10::ArrayRef<at::Tensor> inputs, c10::ArrayRef<at::Tensor> given, const c10::Stream& stream);
  bool is_copied_out(SlotId slot) const;
  void drop_graph();
  bool can_hand_out(const Frame& frame, c10::ArrayRef<at::Tensor> inputs) const;
  void find_patchable();
  void find_tail();
  bool can_be_tail(std::size_t first, const std::vector<std::size_t>& begins) const;
  void note_tail_reads(const Frame& frame);
  void run_tail(Frame& frame, c10::ArrayRef<at::Tensor> inputs);
  void note_patches(std::vector<CapturedLaunch> launches);
  bool patch(SlotId slot, const at::Tensor& tensor);
  void move(CapturedCopy& copy, void* to, const void* from);
  void update_launches();
  bool place_inputs(c10::ArrayRef<at::Tensor> inputs);
  std::unique_ptr<Frame> prepare_results(c10::ArrayRef<at::Tensor> inputs);

  const Plan& plan_;
  Work work_;
  std::mutex mutex_;
  std::vector<std::size_t> input_slots_;  // by input
  std::vector<bool> can_patch_;           // by slot
  std::vector<SlotId> results_;         // the slots that outputs are made of, each once
  std::size_t tail_ = 0;                // the first action that runs behind the graph
  std::vector<bool> tail_makes_;        // by slot
  SlotId moved_ = -1;                   // the tail's result, where the graph holds the tail
  std::array<CUgraphNode, MovableCall::kCaptures + 1> tail_ends_{};  // while it is captured
  std::optional<MovableCall> moving_;
  std::vector<std::pair<SlotId, at::Tensor>> tail_reads_;  // what it reads of the graph's memory, which these do not own
  bool gives_inputs_ = false;           // some results are inputs
  std::vector<const void*> addresses_;  // of the inputs: in the last run, then in the graph
  std::vector<bool> moves_;             // inputs that have lain in several places
  std::vector<at::Tensor> places_;      // of the graph's own, for these
  std::vector<std::size_t> elsewhere_;  // inputs that generated kernels have yet to be given the addresses of
  std::vector<std::pair<std::size_t, CapturedCopy>> copies_in_;  // by input
  std::vector<std::pair<SlotId, CapturedCopy>> copies_out_;      // by result
  std::unique_ptr<Frame> captured_;
  std::unique_ptr<PooledGraph> graph_;
  std::vector<CapturedLaunch> launches_;  // those that are given new addresses
  std::vector<bool> changed_;             // of them: since their last update
  struct Patch {
    std::size_t launch, pointer;
  };
  std::vector<std::vector<Patch>> patches_;  // by slot; none where others than generated kernels touch it
  std::atomic<bool> ready_ = false;
  int runs_ = 0, captures_ = 0;
  bool given_up_ = false;
};

}  // namespace dynrun::runtime::cuda
