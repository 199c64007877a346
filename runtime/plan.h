#pragma once
// A compiled graph as data: slots with their memory, actions in order, outputs. `make_executor` runs it.

#include "runtime/executable.h"
#include "runtime/step.h"

namespace dynrun::runtime {

enum class SlotKind : std::uint8_t {
  kUnused,
  kInput,     // `index`: which graph input
  kConstant,  // `constant`: kept by the executable
  kArena,     // a buffer in the arena, `arena_offset` bytes in, good for `buffer_elements`
  kFresh,     // allocated anew in each run, because it is handed out
  kView,      // `root`'s buffer from `view_offset` elements on
  kMade,      // the step that writes it assigns a tensor of its own
};

struct SlotPlan {
  SlotKind kind = SlotKind::kUnused;
  graph::TensorType type;
  std::int32_t index = -1;
  at::Tensor constant;
  std::int64_t arena_offset = 0;
  std::int64_t buffer_elements = 0;
  SlotId root = -1;
  std::int64_t view_offset = 0;
};

struct Action {
  std::unique_ptr<Step> step;
  std::vector<SlotId> prepare;  // kFresh and per-run kView slots that the step needs and that do not exist yet
  std::vector<std::pair<SlotId, SlotId>> copies;  // (from, to): contents to copy before the step
  std::vector<SlotId> touches;                    // slots with memory of their own that the step reads or writes
  std::vector<SlotId> release;                    // slots without a reader after this action (not the arena's)
};

/// Where among the operators that made a view one took it out of autograd's sight.
enum class Detach : std::uint8_t { kNone, kLast, kEarlier };

/// An output is a slot; one that is a view of an input or another output is made at the end, with autograd's view tracking.
struct OutputPlan {
  SlotId slot = -1;           // -1: undefined
  std::int32_t same_as = -1;  // an earlier output that is this very tensor
  bool is_view = false;       // of `slot`, with `type` and `view_offset`
  graph::TensorType type;
  std::int64_t view_offset = 0;
  Detach detach = Detach::kNone;  // of a view
};

struct Plan {
  std::vector<SlotPlan> slots;
  std::vector<Action> actions;
  std::vector<OutputPlan> outputs;
  std::int64_t arena_bytes = 0;
  graph::Mode mode;
  c10::Device device = c10::kCPU;  // of all tensors
  bool repeatable = false;         // a run launches the same work each time, whatever the inputs hold
  /// Inputs that the graph writes: a run where one of them shares storage with another input is replayed instead.
  std::vector<std::int32_t> written_inputs;
  bool below_autograd = true;  // false when an operator from outside libtorch may have an autograd kernel of its own
};

/// `graph`: the one that the plan was made from, for runs that the plan does not serve.
std::unique_ptr<Executable> make_executor(Plan plan, std::shared_ptr<const graph::Graph> graph);

/// A buffer that lives from action `first` to action `last` inclusive. `bind` picks offsets so that buffers alive together do
/// not overlap (greedy by size, as in TensorFlow Lite's arena planner) and gives the arena's size.
struct BufferLife {
  std::int64_t bytes = 0;
  std::int32_t first = 0, last = 0;
  std::int64_t offset = 0;
};
std::int64_t plan_memory(std::vector<BufferLife>& buffers);

/// A step that calls one node through the dispatcher; `slot_of` gives the slot of a value.
std::unique_ptr<Step> make_dispatch_step(const graph::Graph& graph, const graph::Node& node,
                                         const std::function<SlotId(graph::ValueId)>& slot_of);

/// Splits [0, count) over libtorch's intra-op threads in pieces of at least `grain`.
void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body);

}  // namespace dynrun::runtime
