#pragma once
// A segment: guards, a graph, effects and an exit; and how it is replayed.
//
// A replay is a transaction. Nothing of it can be seen before it commits: the executable writes outside tensors only once
// every operator that may raise has run, and Python's effects come last. A replay that fails before that leaves no trace, and
// the VM runs the same code instead, so that an exception is raised by the very line that raises it under CPython.

#include "guards/program.h"
#include "graph/graph.h"
#include "graph/intervals.h"
#include "report/clock.h"
#include "runtime/executable.h"
#include "runtime/random_state.h"
#include "trace/inputs.h"
#include "trace/host.h"
#include "trace/line_log.h"
#include "trace/recipe.h"
#include "trace/weight_casts.h"
#include "vm/machine.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace dynrun::trace {

/// torch's thread-local and global state that a segment was recorded under: guarded at entry.
struct TorchState {
  bool grad = false, inference = false, autocast = false, autocast_cuda = false;
  bool deterministic = false, tf32 = false, function_modes = false, dispatch_modes = false, anomaly = false, forward_mode = false;
  bool flush_denormal = false;
  c10::ScalarType default_dtype = c10::ScalarType::Float;
  c10::ScalarType autocast_dtype = c10::ScalarType::BFloat16, autocast_cuda_dtype = c10::ScalarType::Half;
  int device = 0;     // which GPU is the thread's current one, once `watch_device` has found that it matters
  int precision = 0;  // of float32 products and, from bit 8 on, of convolutions on a GPU
  std::uint32_t backends = 0;           // cuDNN, oneDNN and attention switches, a bit each
  std::uint64_t included = 0, excluded = 0;  // the thread's dispatch keys: functorch, tracing and their kind
  bool tracing = false;
  bool saved_hooks = false;  // the program packs what autograd saves: its hooks run between the operators
  bool profiled = false;  // something listens to operators: a profiler
  bool autocast_cache = true;
  int autocast_nesting = 0;

  static TorchState now();
  /// The same, with a precision that is known: torch finds it by a search of tables.
  static TorchState now(int precision);
  bool operator==(const TorchState&) const = default;
  /// Whether operators run Python code of their own, or are followed one by one: nothing is recorded then.
  bool calls_back() const { return function_modes || dispatch_modes || anomaly || forward_mode || tracing || saved_hooks; }
  /// Of a segment with that graph: from now on states say which GPU is current where the graph uses one and there are others.
  void watch_device(const graph::Graph& graph);
  /// Which field differs, for a guard miss: name, was, now.
  guards::Miss difference(const TorchState& current) const;
};

enum class EffectKind : std::uint8_t {
  kSetAttribute,   // object.name = value, as object.__setattr__ does
  kSetItem,        // list or dict item
  kDeleteItem,     // dict item
  kDeleteAttribute,  // del object.name, as object.__delattr__ does
  kAppend,         // list.append
  kAddToSet,       // set.add of the key
  kDiscard,        // set.discard of the key
  kSetCell,
  kResetContext,   // target: a context variable, value: a token
  kGradMode,       // value: True or False
  kContext,        // target: a context token, whose making sets the variable
  kHostCall,       // the host call `host`
  kTouchCache,     // calls target(*key, **value) again, whose result a cache holds
};

struct Effect {
  EffectKind kind;
  RecipeId target = kNullRecipe, key = kNullRecipe, value = kNullRecipe;
  std::int32_t host = -1;
};

/// One frame at the exit.
struct FrameRecipe {
  RecipeId function = kKeepRecipe;   // kKeepRecipe: a frame of the entry, still there
  std::vector<RecipeId> locals;      // by localsplus slot
  std::vector<RecipeId> stack;
  std::int32_t pc = 0;
  vm::Continuation continuation = vm::Continuation::kPushResult;
  RecipeId held = kNullRecipe;
  RecipeId generator = kNullRecipe;  // a frame of this generator, which runs; `function` is then only to be shown
  vm::Resumption resumption = vm::Resumption::kNone;
};

/// The exceptions that frames hold: where they were raised, and which one is being handled.
struct Handling {
  struct Place {
    int depth;  // of the frame, from the base's
    int last;   // as tb_lasti
    int line;
  };
  struct Traceback {
    RecipeId exception;
    std::vector<Place> places;  // outermost first
  };
  RecipeId exception = kNullRecipe;  // being handled by code that the segment entered
  std::vector<Traceback> tracebacks;
};

/// A call that runs in Python on each replay, in its place among the effects: print and its kind. Should it raise, the frames
/// that stood at the call are rebuilt and the exception starts there. Nothing outside is written by the graph of a segment that
/// has one, so what those frames hold is computed again, by the operators that had run before the call.
struct HostCall {
  RecipeId callee = kNullRecipe, arguments = kNullRecipe, keywords = kNullRecipe;
  bool looks_at_frames = false;      // the callee asks who calls it: the frames stand there during the call, without their locals
  bool grad = false;                 // the grad mode at the call
  int kept_frames = 0;
  std::vector<FrameRecipe> frames;   // at the call instruction; their recipes' outputs are `values`
  Handling handling;
  std::size_t nodes = 0;             // of the graph that come before the call
  std::vector<graph::ValueId> values;
};

/// Where a segment may be entered: the code and instruction of every frame from the recording's base to the top.
struct EntryPoint {
  std::vector<std::pair<const bytecode::Code*, std::int32_t>> frames;
  bool operator==(const EntryPoint&) const = default;
};
EntryPoint entry_point(vm::Activation* base, vm::Activation* top);
/// Where an instruction stands in the source.
graph::SourceLine line_at(const bytecode::Code& code, std::int32_t pc);
/// Whether that is where the frames from `base` to `top` stand.
bool stands_at(const EntryPoint& point, vm::Activation* base, vm::Activation* top);
std::vector<guards::EntryFrame> entry_frames(vm::Activation* base, vm::Activation* top);

/// What runs a graph with certain weights.
struct MadeCode {
  std::shared_ptr<runtime::Executable> executable;
  /// Parameters that lowering read.
  struct Folded {
    int input;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // the tensor itself may not have weak references: swap_tensors refuses them
    const void* data;
    std::uint32_t version;
    std::uint64_t alias_epoch;
  };
  std::vector<Folded> folded;
  std::uint64_t folded_at = 0;  // guards::alias_count() when `folded` was last looked through
  bool guessed = false;  // made in haste: more time might give faster code
  std::weak_ptr<runtime::Executable> rehearsed;  // which one has once been run on copies, where it writes outside tensors
  std::uint32_t runs = 0;
};

/// What runs a graph, and what it relies on. A segment may serve several instances of a class, each with weights of its own.
struct Code : MadeCode {
  bool lowered = false;
  int refolds = 0;
  std::vector<MadeCode> others;  // made of other weights
  std::unique_ptr<MadeCode> plain;  // made of no weights, while it is not the one in use
  bool is_plain = false;            // the one in use is
  int made_at_once = 0;  // how often code was made of other weights when they were first met
  int told_by = 0;       // an input that tells weights apart
  int short_lived = 0;   // how often weights were gone before the code that was made of them had paid
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> met;  // what it was, where the code in use was made of none

  /// Whether a run will do no more with its inputs than look where they lie, whichever code it takes.
  bool looks_only() const;
  std::vector<graph::TensorType> expected;  // of the outputs of the next run; empty: nothing is expected
  bool as_expected = true;
  bool failed = false;  // the last run raised or warned
  bool unproven = false;  // at these sizes an index may be out of range after outside tensors were written: each run is rehearsed, or undone if it raises
  bool untried = false;  // at these sizes no run has come to its end yet, and an operator may raise after outside tensors were written
};

class ShapePlans;
struct ShapePlan;

struct Segment {
  Segment();
  ~Segment();

  EntryPoint entry;
  TorchState state;
  guards::Program guards;

  std::shared_ptr<graph::Graph> graph;
  std::vector<guards::SourceId> input_sources;   // kNoSource: a literal
  std::unordered_map<int, at::Tensor> literals;  // by input; never written
  HostProgram host;
  std::unordered_map<int, HostId> host_inputs;   // by input: the number it is
  Code code;                             // where the sizes are those of the recording
  std::unique_ptr<ShapePlans> shapes;    // where they may be others; else null
  int backend = 0;              // whose code it gets: the engine's number of another compiler, 0 for its own
  std::vector<c10::Device> drawn_from;  // whose default generators it draws from
  std::vector<graph::RangeProof> proofs;  // indices in range at the sizes of the recording, behind a write to an outside tensor
  bool writes_outside = false;  // writes tensors in place that outlive it
  std::vector<std::size_t> written_inputs;  // those, by input, and running statistics
  std::vector<bool> only_read;  // by input: weights and their like, which a run that does not count may read themselves
  struct OutputTraits {
    bool is_view;
    std::uint32_t version;
    std::optional<std::uint32_t> written_since;  // a view made here: how often its memory was written after that
    std::optional<std::uint8_t> creation;        // of such a view: torch::autograd::CreationMeta
  };
  bool any_grad_mode = false;               // of the graph
  std::vector<OutputTraits> output_traits;  // what Python can see of a graph output besides its contents
  std::vector<std::int32_t> alias_pattern;  // for each input the first input with the same storage, and how they lie in it; checked when it writes

  RecipeBook recipes;
  std::vector<Effect> effects;
  std::vector<HostCall> host_calls;
  bool sets_autocast = false;  // switches autocast, and ends with the state of `exit_autocast`
  TorchState exit_autocast;
  WeightCasts weight_casts;
  CastsLeft casts_left;
  std::shared_ptr<runtime::Executable> kept_casts;  // its operators, for casts that are not fresh
  bool returns = false;
  bool continues = false;                 // the exit is no break: another segment may begin right there
  RecipeId result = kNullRecipe;          // when it returns
  int kept_frames = 0;                    // entry frames that are still there at the exit
  std::vector<FrameRecipe> exit_frames;   // the kept ones, then new ones
  Handling exit_handling;

  std::uint64_t operators = 0, frames = 0;  // what one replay stands for
  LineLog lines;                            // whose numbers guards and host values bear
  std::int32_t row = -1, break_row = -1;    // the engine's notes of it, and of the break that ends it
  report::Sampler code_sampler;             // which runs of its code are timed, where `timed`
  std::uint64_t code_ticks = 0;             // that its code ran in this replay (report/clock.h); 0: it was not timed
  bool timed = false;
  bool replayed = false;     // at least once
  bool failed_once = false;  // --stress=guards
  bool refuted = false;      // a replay found that what it assumes does not hold (trace/assumptions.h)
};

enum class ReplayResult : std::uint8_t {
  kFailed,    // an operator raised: nothing has happened; run the code in the VM
  kDone,      // committed; the machine's chain is at the exit (or `machine.result` is set when the base returned)
  kRaised,    // a Python error is set (an effect raised)
};

/// Checks the guards alone. On success `registers` holds what the sources read.
bool guards_hold(const Segment& segment, const std::vector<guards::EntryFrame>& frames, std::vector<PyObject*>& registers);
/// Runs the segment whose guards have just held, and puts the machine at its exit. `base` is the recording's base activation.
/// `returned` is set when the base activation has returned: its frame is then dropped and its result is with the caller or
/// in machine.result.
ReplayResult replay(Segment& segment, vm::Machine& machine, vm::Activation* base, std::vector<PyObject*>& registers,
                    const std::vector<python::Ref>& hosts, Inputs inputs, Code& code, bool verify, bool* returned);

/// Puts the machine's chain from `base` on at the frames that the recipes tell: the first `kept` are there already. False with a
/// Python error set.
bool enter_frames(const std::vector<FrameRecipe>& frames, int kept, const Handling& handling, vm::Machine& machine, vm::Activation* base,
                  Kitchen& kitchen);

/// What a host call needs of the replay that it is part of.
struct HostContext {
  Segment& segment;
  vm::Machine& machine;
  vm::Activation* base;
  const std::vector<PyObject*>& registers;
  const std::vector<python::Ref>& hosts;
  const std::vector<at::Tensor>& inputs;
  const runtime::RandomState& random;  // of before the replay
};
/// Makes the call. False with a Python error set; the machine then stands at the call instruction, whose frames are rebuilt.
bool run_host_call(const HostCall& call, Kitchen& kitchen, const HostContext& context);

/// Gives `value` (stolen) to the caller of the top activation, which is dropped. True when that was the machine's base.
bool return_from_top(vm::Machine& machine, PyObject* value);

}  // namespace dynrun::trace
