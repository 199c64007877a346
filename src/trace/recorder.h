#pragma once
// The recorder: turns what the VM executes into guards, graph nodes, effects and an exit.
//
// Working rules.
// - The VM executes for real; the recorder only decides, before each instruction, whether what it reads is known and guarded,
//   and learns, after it, what it gave. What it cannot follow ends the segment *before* that instruction (a cut): always sound.
// - Every object is one of: a constant (guarded by value when it was read from outside), external (read by a path that the
//   guards read again), fresh (made by recorded code), or a tensor of the graph. Anything else is unknown: cut.
// - An instruction that turns out unrecordable only while it runs is cut off afterwards: the segment ends before it, with the
//   operands that were saved. That is sound as long as nothing fresh was changed meanwhile; otherwise the recording is dropped.
// - External objects are held while recording, so that no address is reused. Tensors that nodes make are pinned, not kept.
// - Everything here holds the GIL and may leave no Python error set, except where it says so.

#include "guards/program.h"
#include "trace/callables.h"
#include "trace/operator_recorder.h"
#include "trace/segment.h"
#include "vm/machine.h"

#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dynrun::trace {

// Why a segment ended before the code did. One table: id, what happened, what to do.
#define DYNRUN_BREAKS(X)                                                                                                          \
  X(opaque_call, "opaque-call", "a call into code that dynrun cannot see through", "move the call out of the hot function")       \
  X(opaque_operation, "opaque-operation", "an operation that dynrun does not record yet", "move it out of the hot function")      \
  X(data_dependent_bool, "data-dependent-bool", "a branch on a tensor's value", "use torch.where, or compute the condition outside") \
  X(data_dependent_operator, "data-dependent-operator", "an operator whose result's shape or number depends on tensor data",       \
    "keep such values in tensors")                                                                                                \
  X(unknown_object, "unknown-object", "an object of unknown provenance", "make it inside the function, or pass it in")            \
  X(unsupported_tensor, "unsupported-tensor", "a tensor of a layout or subclass that is not recorded", "use strided tensors")     \
  X(write_then_raise, "write-then-raise", "an operator that may raise follows a write to an outside tensor", "write last")        \
  X(read_after_write, "read-after-write", "a container from outside is read as a whole after it was written", "read first")       \
  X(raise, "raise", "an exception is raised", "none needed where it is rare")                                                     \
  X(generator, "generator", "a generator or coroutine of the program's own", "use a list where speed matters")                    \
  X(size_cap, "size-cap", "the segment reached its size limit", "none needed: the next segment takes over")                       \
  X(stress, "stress", "a break asked for by --stress=break", "none")

enum class BreakId : std::uint8_t {
#define X(name, id, what, cure) k_##name,
  DYNRUN_BREAKS(X)
#undef X
};
struct BreakInfo {
  const char *id, *what, *cure;
};
const BreakInfo& break_info(BreakId id);

struct Break {
  BreakId id;
  std::string detail;  // the callee, operator or type met
  graph::SourceLine line;
};

/// What the VM shall do next.
enum class Flow : std::uint8_t {
  kRun,       // run the instruction; `after` follows
  kResume,    // done already, or the chain changed
  kRaise,     // a Python error is set
  kCut,       // the segment ends before this instruction: run it without recording
  kDropped,   // the recording was dropped; run on without
  kFinished,  // run the instruction: the base returns, the segment is complete
};

class Recorder {
 public:
  struct Limits {
    std::size_t nodes = 20000, instructions = 2'000'000, backward_jumps = 600;
    bool break_after_operator = false;
  };
  Recorder(vm::Machine& machine, vm::Activation* base, Limits limits);

  Flow before(vm::Machine& machine, vm::Activation& activation, const bytecode::Instruction& instruction);
  /// kRun: recorded. kCut: the segment ended before the instruction that has just run. kDropped: no segment.
  Flow after(vm::Machine& machine, const bytecode::Instruction& instruction, bool raised);
  void entered(vm::Machine& machine, vm::Activation& activation);
  void leaving(vm::Machine& machine, vm::Activation& activation);

  /// The finished segment, after kCut or kFinished; null when it was dropped.
  std::unique_ptr<Segment> take() { return std::move(segment_); }
  /// After kCut from `after`: the instruction that the segment ends before has run already.
  bool instruction_ran() const { return instruction_ran_; }
  const std::optional<Break>& why() const { return break_; }
  OperatorRecorder& operators() { return operators_; }
  /// The tensors of this call, one a graph input.
  const std::vector<at::Tensor>& inputs() const { return inputs_; }

 private:
  enum class Known : std::uint8_t { kExternal, kFresh };
  struct Object {
    Known known;
    guards::SourceId source = guards::kNoSource;
    PyTypeObject* type = nullptr;  // a fresh object may die and its address go to another
    python::Ref hold;              // external objects only
    bool contents_learnt = false;
  };
  /// What `after` does for the instruction that runs.
  enum class Then : std::uint8_t { kNothing, kLearnTop, kLearnTopDeep, kMakeCell, kContextToken, kFreshTop, kLearnUnpacked, kForIter };
  struct Pending {
    Then then = Then::kNothing;
    int count = 0;
    bool guarded = false;                          // operands saved: may be cut off afterwards
    std::vector<python::Ref> operands;             // the stack slots consumed (null slots kept)
    OperatorRecorder::Mark mark{};
    std::size_t effects = 0;
    std::uint64_t mutations = 0;
    std::int32_t pc = 0;
    int depth = 0;                                 // of the stack, before the instruction
    vm::Activation* activation = nullptr;
  };
  using Handler = Flow (Recorder::*)(vm::Activation&, const bytecode::Instruction&);
  static const Handler* handlers();

  // Knowledge. (recorder_objects.cpp)
  bool resolve(PyObject* object);                       // known now?
  bool resolve_slice(PyObject* slice);
  bool resolve_deep(PyObject* object, int depth = 0);   // contents of exact containers too
  bool learn_external(PyObject* object, guards::SourceId source);
  bool learn_result(PyObject* object, int depth = 0);   // a result of recorded code: constants, known or fresh objects
  bool learn_contents(PyObject* container, Object& known, int depth);
  void learn_fresh(PyObject* object);
  Object* find(PyObject* object);
  guards::SourceId source_of(PyObject* object);         // kNoSource when not external
  guards::SourceId type_source(PyObject* object);       // a source for type(object)
  bool is_fresh(PyObject* object) { Object* known = find(object); return known && known->known == Known::kFresh; }
  guards::SourceId local_source(std::size_t depth, std::size_t slot);
  bool read_local(vm::Activation& activation, int slot);
  bool learn_function_defaults(PyObject* function);
  guards::SourceId globals_source(vm::Activation& activation);
  graph::ValueId outside_tensor(const at::Tensor& tensor);
  bool was_written(PyObject* container, PyObject* key);
  bool is_dirty(PyObject* container) { return dirty_.count(container) != 0; }

  // Attributes. (recorder_attributes.cpp)
  enum class Attribute : std::uint8_t { kValue, kCallGetter, kCallDescriptor, kCallGetattr, kMissing, kRun, kUnknown };
  Attribute look_up(PyObject* object, PyObject* name, PyObject** getter, guards::SourceId* source);
  Attribute look_up_instance(PyObject* object, PyObject* name, PyObject** getter, guards::SourceId* source, bool raw = false);
  Attribute look_up_function(PyObject* function, PyObject* name, PyObject** getter, guards::SourceId* source);
  Attribute look_up_class(PyTypeObject* type, PyObject* name, guards::SourceId* source);
  Attribute look_up_tensor(PyObject* tensor, PyObject* name, PyObject** getter, guards::SourceId* source);
  Attribute class_value(PyObject* owner_type_source_object, PyTypeObject* type, PyObject* name, PyObject* found, guards::SourceId* source);
  bool plain_setattr(PyTypeObject* type, PyObject* name);
  bool store_attribute(PyObject* object, PyObject* name, PyObject* value);
  Flow load_attr(vm::Activation&, const bytecode::Instruction&);
  Flow store_attr(vm::Activation&, const bytecode::Instruction&);
  Flow load_super_attr(vm::Activation&, const bytecode::Instruction&);
  Flow before_with(vm::Activation&, const bytecode::Instruction&);

  // Loads, stores, stack. (recorder_moves.cpp)
  Flow plain(vm::Activation&, const bytecode::Instruction&);
  Flow load_const(vm::Activation&, const bytecode::Instruction&);
  Flow load_fast(vm::Activation&, const bytecode::Instruction&);
  Flow store_fast(vm::Activation&, const bytecode::Instruction&);
  Flow load_fast_and_clear(vm::Activation&, const bytecode::Instruction&);
  Flow make_cell(vm::Activation&, const bytecode::Instruction&);
  Flow copy_free_variables(vm::Activation&, const bytecode::Instruction&);
  Flow load_closure(vm::Activation&, const bytecode::Instruction&);
  Flow load_deref(vm::Activation&, const bytecode::Instruction&);
  Flow store_deref(vm::Activation&, const bytecode::Instruction&);
  Flow load_global(vm::Activation&, const bytecode::Instruction&);
  Flow store_global(vm::Activation&, const bytecode::Instruction&);
  Flow import_name(vm::Activation&, const bytecode::Instruction&);
  Flow import_from(vm::Activation&, const bytecode::Instruction&);
  Flow make_function(vm::Activation&, const bytecode::Instruction&);
  Flow jump_backward(vm::Activation&, const bytecode::Instruction&);
  Flow return_value(vm::Activation&, const bytecode::Instruction&);
  Flow return_const(vm::Activation&, const bytecode::Instruction&);

  // Operators and containers. (recorder_operations.cpp)
  Flow branch(vm::Activation&, const bytecode::Instruction&);
  Flow branch_none(vm::Activation&, const bytecode::Instruction&);
  Flow unary(vm::Activation&, const bytecode::Instruction&);
  Flow unary_not(vm::Activation&, const bytecode::Instruction&);
  Flow binary(vm::Activation&, const bytecode::Instruction&);
  Flow compare(vm::Activation&, const bytecode::Instruction&);
  Flow is_op(vm::Activation&, const bytecode::Instruction&);
  Flow contains(vm::Activation&, const bytecode::Instruction&);
  Flow subscript(vm::Activation&, const bytecode::Instruction&);
  Flow slice(vm::Activation&, const bytecode::Instruction&);
  Flow store_subscript(vm::Activation&, const bytecode::Instruction&);
  Flow build(vm::Activation&, const bytecode::Instruction&);
  Flow build_string(vm::Activation&, const bytecode::Instruction&);
  Flow extend(vm::Activation&, const bytecode::Instruction&);
  Flow append(vm::Activation&, const bytecode::Instruction&);
  Flow unpack(vm::Activation&, const bytecode::Instruction&);
  Flow get_iter(vm::Activation&, const bytecode::Instruction&);
  Flow for_iter(vm::Activation&, const bytecode::Instruction&);
  Flow intrinsic(vm::Activation&, const bytecode::Instruction&);
  Flow raise(vm::Activation&, const bytecode::Instruction&);
  Flow push_exception(vm::Activation&, const bytecode::Instruction&);
  bool is_handled(vm::Activation&);
  void adopt_keywords(std::size_t depth);
  void learn_called_by_c(vm::Activation& activation);
  Flow yield_value(vm::Activation&, const bytecode::Instruction&);
  enum class Truth : std::uint8_t { kKnown, kCall, kTensor, kUnknown };
  Truth truth_of(PyObject* object, PyObject** method);
  bool index_ok(PyObject* index);
  bool operand_ok(PyObject* operand, bool* tensor);
  /// The Python function of that name in the object's class, borrowed, or null. With a source the object is learnt from there first.
  PyObject* python_method(PyObject* object, const char* name, guards::SourceId source = guards::kNoSource);

  // Calls. (recorder_calls.cpp)
  struct CallSite {
    PyObject* callee = nullptr;
    std::vector<PyObject*> arguments;  // self first where bound; keyword values last
    Py_ssize_t positional = 0;
    PyObject* keyword_names = nullptr;
    int slots = 0;                     // stack slots that the instruction consumes
  };
  Flow call(vm::Activation&, const bytecode::Instruction&);
  Flow call_function_ex(vm::Activation&, const bytecode::Instruction&);
  Flow call_site(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_python(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_class(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_builtin(vm::Activation&, const bytecode::Instruction&, CallSite& site, PyObject* callable, PyObject* self);
  Flow call_modelled(vm::Activation&, const bytecode::Instruction&, CallSite& site, Model model, PyObject* self, PyObject* callable);
  Flow call_partial(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_instance(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  /// Pops the operands and pushes an inlined call of `function`; the pc goes behind the instruction.
  Flow push(vm::Activation&, const bytecode::Instruction&, PyObject* function, const std::vector<PyObject*>& arguments, Py_ssize_t positional,
            PyObject* keyword_names, int slots, vm::Continuation continuation, PyObject* held = nullptr, bool null_below = false);

  // Ends. (recorder_exit.cpp)
  Flow prepare(vm::Activation& activation, const bytecode::Instruction& instruction, int operands, Then then);
  Flow cut(BreakId id, std::string detail = "");
  void note_break(BreakId id, std::string detail);
  bool finish_at(vm::Activation* top, const Pending* ran, std::int32_t pc);
  Flow cut_afterwards(bool raised);
  bool learn_pending(vm::Activation* top);
  void enter_machine(vm::Machine& machine);
  bool finish_return(PyObject* value);
  bool finish();
  bool frame_recipe(vm::Activation* activation, int depth, const Pending* ran, FrameRecipe& recipe);
  RecipeId recipe(PyObject* object);
  RecipeId recipe_instance(PyObject* object);
  RecipeId recipe_container(PyObject* object);
  RecipeId recipe_function(PyObject* object);
  RecipeId recipe_iterator(PyObject* object);
  RecipeId recipe_dict(PyObject* items);
  bool build_effects();
  std::int32_t source_line(vm::Activation& activation, const bytecode::Instruction& instruction);

  vm::Machine& machine_;
  vm::Activation* base_;
  Limits limits_;
  std::unique_ptr<Segment> segment_;
  guards::Program& guards_;
  OperatorRecorder operators_;
  std::unordered_map<PyObject*, Object> objects_;
  std::unordered_map<PyObject*, guards::SourceId> function_of_globals_;
  std::unordered_map<graph::ValueId, std::pair<guards::SourceId, at::Tensor>> outside_inputs_;
  std::vector<at::Tensor> inputs_;
  std::unordered_map<c10::TensorImpl*, std::pair<guards::SourceId, std::string>> outside_tensors_;

  struct EntrySlots {
    vm::Activation* activation;     // null once it has left
    PyCodeObject* code;
    std::vector<PyObject*> locals;  // borrowed; a slot that was written since holds null and `written`
    std::vector<bool> written, read;
    std::vector<PyObject*> stack;
  };
  std::vector<EntrySlots> entry_;
  int kept_ = 0;  // entry activations that are still in the chain

  struct PendingEffect {
    EffectKind kind;
    python::Ref target, key, value;
  };
  std::vector<PendingEffect> effects_;
  std::unordered_map<PyObject*, std::vector<python::Ref>> written_keys_;
  std::unordered_set<PyObject*> dirty_;  // lists written as a whole
  std::uint64_t mutations_ = 0;
  struct ContextSet {
    python::Ref variable, value, token;
  };
  std::vector<ContextSet> context_sets_;  // not reset yet

  Pending pending_;
  vm::Machine* pending_machine_ = nullptr;
  std::vector<std::pair<vm::Machine*, Pending>> outer_pending_;  // of instructions whose C code called Python again
  bool poisoned_ = false;               // inside such a call something could not be recorded
  bool instruction_ran_ = false;        // the segment was cut off after its last instruction had run
  std::optional<Break> break_;
  TorchState entry_state_;
  std::unordered_map<PyObject*, RecipeId> recipe_memo_;
  std::unordered_map<std::string, std::int32_t> line_index_;
  std::unordered_map<graph::ValueId, std::int32_t> output_index_;
  std::string recipe_failure_;
  int handlers_entered_ = 0;
  std::size_t instructions_ = 0, backward_jumps_ = 0;
  std::uint64_t frames_ = 0;
};

}  // namespace dynrun::trace
