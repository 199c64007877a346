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
#include "report/breaks.h"
#include "trace/callables.h"
#include "trace/operator_recorder.h"
#include "trace/segment.h"
#include "vm/machine.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dynrun::trace {

using report::BreakId;

struct Break {
  BreakId id;
  std::string detail;  // the callee, operator or type met
  graph::SourceLine line;
  int column = -1, end_column = -1;        // of what was met, in UTF-8 bytes of that line from 0; -1: not known, or on several lines
  std::vector<graph::SourceLine> callers;  // innermost first, 32 at most
  std::size_t recorded_callers = 0;        // of them, those that were being recorded
  bool in_torch = false;                   // torch.compile breaks there too: see torch_breaks.h
};

/// Built-in helpers (iterators, views, bound methods) that recorded code may make and pass round: they hold nothing but known things.
bool is_plain_temporary(PyObject* object);

/// torch.finfo, torch.iinfo, the properties of a GPU: all that they hold is fixed when they are made.
bool is_number_info(PyObject* object);

/// operator.itemgetter, attrgetter or methodcaller; `is_constant_getter`: one that was made with numbers and texts.
bool is_getter(PyObject* object);
bool is_constant_getter(PyObject* object);
/// One of NumPy's functions of one number that the recorder knows.
bool is_numpy_function(PyObject* object);

/// A Python function that was defined in the module of that name.
bool is_of_module(PyObject* function, const char* module);

/// Whether every item of a set hashes and compares without Python code: text, numbers, classes.
bool set_is_plain(PyObject* set);

/// A class that hashes and compares by identity.
bool is_plain_class(PyObject* object);
/// Whether a module holds the class under its name, or it can never go: to hold it keeps nothing alive that would be freed.
bool is_global_class(PyTypeObject* type);

/// An object whose class leaves hashing and equality to object, or to identity as tensors do.
bool is_hashed_by_identity(PyObject* object);

/// Whether Python code tells the object's hash: it must not be asked again.
bool is_hashed_by_program(PyObject* object);

/// Numbers, text and tuples of these.
bool is_hashed_by_value(PyObject* object);
/// The generator behind the functions of the random module, borrowed.
PyObject* shared_generator();

/// A copy of a number or text that is no other object; null where there is none (the empty text).
python::Ref unique_copy(PyObject* object);

/// The field of a named tuple that a descriptor reads; negative for another object.
Py_ssize_t tuple_field(PyObject* descriptor);

/// An array of NumPy of that very class. Its text is made by Python code.
bool is_array(PyObject* object);

/// A tensor, None, or tuples and lists of such.
bool holds_only_tensors(PyObject* object);

/// What the VM shall do next.
enum class Flow : std::uint8_t {
  kRun,       // run the instruction; `after` follows
  kResume,    // done already, or the chain changed
  kRaise,     // a Python error is set
  kCut,       // the segment ends before this instruction: run it without recording
  kCutHere,   // the segment ends before this instruction, and the next one may begin at it
  kDropped,   // the recording was dropped; run on without
  kFinished,  // run the instruction: the base returns, the segment is complete
};

class Recorder {
 public:
  struct Limits {
    std::size_t nodes = 20000, instructions = 2'000'000, backward_jumps = 128, iterations = 1024;
    bool break_after_operator = false;
    bool keeps_lines = false;  // all of them, in Segment::lines
    bool assumes = false;        // that checks of tensors' values go on as they go (trace/assumptions.h)
    bool keeps_callers = false;  // of each operator, in Graph::sources
    const std::unordered_set<const PyCodeObject*>* apart = nullptr;  // code that is called, never recorded
    const std::unordered_set<std::string>* varying_sizes = nullptr;  // guards::size_path; null: sizes are those of the recording
    bool all_sizes_vary = false;                                     // of tensors that are no parameters or a module's own
    const std::unordered_set<std::string>* varying = nullptr;  // paths of numbers and texts that are read as host values
    PyObject* (*function_within)(PyObject*) = nullptr;         // behind a compiled function that is recorded as part of what calls it, or null
  };
  Recorder(vm::Machine& machine, vm::Activation* base, Limits limits);

  Flow before(vm::Machine& machine, vm::Activation& activation, const bytecode::Instruction& instruction);
  /// kRun: recorded. kCut: the segment ended before the instruction that has just run. kDropped: no segment.
  Flow after(vm::Machine& machine, const bytecode::Instruction& instruction, bool raised);
  /// The machine stops before the instruction at its top: the segment ends there, if it can.
  void end_here();
  /// Before what the machine does next.
  Flow end_before(const char* detail);
  void entered(vm::Machine& machine, vm::Activation& activation);
  void leaving(vm::Machine& machine, vm::Activation& activation);

  /// Whether the body of a generator that is resumed is recorded instruction by instruction.
  bool follows(PyObject* generator);

  /// The finished segment, after kCut or kFinished; null when it was dropped.
  std::unique_ptr<Segment> take() {
    restore_originals();
    return std::move(segment_);
  }
  /// After kCut from `after`: the instruction that the segment ends before has run already.
  bool instruction_ran() const { return instruction_ran_; }
  const std::optional<Break>& why() const { return break_; }
  /// Whether it was cut off only because functools.lru_cache had to call the function: the next call finds the result.
  bool fills_cache() const { return fills_cache_; }
  /// How many instructions were looked at, the last one included.
  std::size_t instructions() const { return instructions_; }
  /// The code of a generator, run by C code, in which something could not be recorded; or null.
  PyCodeObject* broken_generator() const { return reinterpret_cast<PyCodeObject*>(broken_generator_.get()); }
  OperatorRecorder& operators() { return operators_; }
  /// The tensors of this call, one a graph input.
  const std::vector<at::Tensor>& inputs() const { return inputs_; }

 private:
  enum class Known : std::uint8_t { kExternal, kFresh };
  enum class Contents : std::uint8_t { kUnseen, kLearnt, kRefused };  // of a container from outside
  struct Object {
    Known known;
    guards::SourceId source = guards::kNoSource;
    PyTypeObject* type = nullptr;  // a fresh object may die and its address go to another
    python::Ref hold;              // external objects only
    Contents contents = Contents::kUnseen;
  };
  /// What `after` does for the instruction that runs.
  enum class Then : std::uint8_t { kNothing, kLearnTop, kLearnTopDeep, kMakeCell, kContextToken, kFreshTop, kLearnUnpacked, kForIter, kHostTop, kNewTuple, kArguments, kGenerator, kExtended };
  struct Pending {
    Then then = Then::kNothing;
    int count = 0;                                 // or the host value of the result
    bool calls_python = false;                     // C code called Python code meanwhile
    bool guarded = false;                          // operands saved: may be cut off afterwards
    std::vector<std::pair<python::Ref, HostId>> offered;  // host values handed to torch
    bool passes_through = false;                   // FOR_ITER of a generator
    enum class Yields : std::uint8_t { kKept, kTruth, kPairs } yields = Yields::kKept;  // what C code does with what a generator gives
    std::vector<python::Ref> operands;             // the stack slots consumed (null slots kept)
    std::vector<std::pair<at::Tensor, std::uint32_t>> versions;  // of the tensors among them
    OperatorRecorder::Mark mark{};
    std::size_t effects = 0;
    std::uint64_t mutations = 0;
    std::int32_t pc = 0;
    int depth = 0;                                 // of the stack, before the instruction
    vm::Activation* activation = nullptr;
  };
  using Handler = Flow (Recorder::*)(vm::Activation&, const bytecode::Instruction&);
  static const Handler* handlers();

  // Host values. (recorder_host.cpp)
  /// Whether this live number or text is computed anew on each replay. Such an object is the only one of its value: its
  /// identity is its provenance.
  bool is_host(PyObject* object) const { return !hosts_.empty() && hosts_.count(object) != 0; }
  /// A number or text that host values can be computed from: itself one, or a constant of exact type int, float or str.
  bool is_operand(PyObject* object) const;
  HostId host_of(PyObject* object);
  bool is_loop_item(std::size_t depth, std::size_t slot) const;
  bool is_loop_index(std::size_t depth, std::size_t slot) const;
  bool is_loop_tuple(std::size_t depth, std::size_t slot) const;
  void adopt_loop_tuple(std::size_t depth, std::size_t slot, guards::SourceId source);
  bool adopt_items(PyObject** slot, guards::SourceId source, const bytecode::Instruction*& pc);
  bool wants_host(PyObject* object, guards::SourceId source);
  bool wants_size(PyObject* object, guards::SourceId source);
  void adopt_size(PyObject** slot, guards::SourceId source);
  bool is_counter(guards::SourceId source) const;
  HostId read_host(PyObject* object, guards::SourceId source);
  /// Makes the object in a slot that of a host value.
  void adopt_host(PyObject** slot, HostId id);
  Flow compute_host(vm::Activation&, const bytecode::Instruction&, HostKind kind, std::int32_t index, std::vector<PyObject*> operands,
                    PyObject* callee, int slots);
  /// From now on the value is the one of this run, by a requirement.
  void specialise(PyObject* object);
  void specialise_all();
  /// Those that C code can get at from these objects.
  void specialise_reachable(const std::vector<python::Ref>& objects);
  bool reaches_writes(const std::vector<python::Ref>& objects) const;
  bool visit_reachable(const std::vector<python::Ref>& objects, const std::function<bool(PyObject*)>& known);
  /// C code looks into the object: numbers in it are those of this run. False: some are another one on every replay.
  bool settle_hidden(PyObject* object);
  /// C code that computes with what Python code gives it, or with what an object hides, sees numbers without being seen.
  static bool passes_values_through(const bytecode::Instruction& in, const Pending& pending);
  static bool hands_on(const Pending& pending);
  /// Numbers that were read on the way to something else stay what they are.
  void require_loaded_hosts();
  void settle_host_loads(Flow flow, const bytecode::Instruction& in);
  /// Tells the operators which host values the instruction hands to torch.
  void offer_hosts(const std::vector<PyObject*>& arguments, std::size_t first, PyObject* keyword_names, std::string_view callee = {});
  void offer_host(PyObject* object, OperatorRecorder::HostArgument place);
  void settle_offered_hosts();

  // Numbers that data decides, given to torch. (recorder_numbers.cpp)
  struct Late;
  /// `t.item()`, `float(t)`, `int(t)` of a tensor.
  bool is_item(PyObject* object) const;
  bool is_data_number(PyObject* object) const;
  bool is_late_element(const Late& late) const;
  bool is_late_size(const Late& late) const;
  bool is_data_list(PyObject* object) const;
  OperatorRecorder::Number data_number(PyObject* object);
  bool may_give(PyObject* argument) const;
  bool gives_data(vm::Activation&, const bytecode::Instruction&, int count) const;
  std::optional<Flow> late_element(vm::Activation&);
  void offer_data(PyObject* object, OperatorRecorder::HostArgument place);
  void offer_tensor(PyObject* object, std::string_view callee, OperatorRecorder::HostArgument place);
  void offer_content(PyObject* tensor, OperatorRecorder::HostArgument place);

  Flow host_comparison(vm::Activation&, int op, PyObject* left, PyObject* right);
  /// A tuple or list of numbers some of which are host values, where they may take the places of sizes.
  bool holds_hosts(PyObject* object) const;
  bool is_number_function(PyObject* callable) const;
  /// guards::is_constant_like; a host value becomes a constant by it.
  bool is_constant(PyObject* object) {
    if (is_host(object)) specialise(object);
    else if (is_late(object)) leaked_ = true;
    else if (is_open_size(object)) specialise_size(object);
    return guards::is_constant_like(object);
  }

  struct CallSite;
  // Values that no two replays share. (recorder_late.cpp)
  struct Late {
    python::Ref object, callee;
    std::vector<python::Ref> arguments;
    int depth = 0;
  };
  bool is_late(PyObject* object) const { return !late_.empty() && late_.count(object) != 0; }
  bool is_volatile(PyObject* object) const {
    if (volatile_.empty()) return false;
    auto at = hosts_.find(object);
    return at != hosts_.end() && volatile_.count(at->second.second) != 0;
  }
  bool is_unsettled(PyObject* object) const { return is_late(object) || is_volatile(object); }
  bool any_unsettled() const { return !late_.empty() || !volatile_.empty(); }
  bool is_plain_number_or_text(PyObject* object);
  bool tensor_text_is_plain(PyObject* tensor);
  Flow cut_unsettled(BreakId id, const char* detail);
  Flow push_late(vm::Activation&, PyObject* callee, std::vector<PyObject*> arguments, int slots);
  python::Ref make_late(PyObject* callee, const std::vector<PyObject*>& arguments, int depth);
  std::optional<Flow> late_text(vm::Activation&, const bytecode::Instruction&);
  std::optional<Flow> late_binary(vm::Activation&, const bytecode::Instruction&);
  std::optional<Flow> late_percent(vm::Activation&, PyObject* modulo);
  std::optional<Flow> settle_operands(vm::Activation&, const bytecode::Instruction&);
  std::optional<Flow> settle_arguments(vm::Activation&, CallSite& site);
  std::optional<Flow> call_item(vm::Activation&, CallSite& site);
  python::Ref number_of_bound(PyObject* bound);
  std::optional<Flow> call_list(vm::Activation&, CallSite& site);
  Flow call_stand_in(vm::Activation&, const bytecode::Instruction&, CallSite& site, const char* name);
  std::optional<Flow> call_autograd_function(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  // Arrays of NumPy. (recorder_arrays.cpp)
  at::Tensor array_tensor(PyObject* object) const;
  bool record_all(const std::function<void()>& call);
  std::optional<Flow> call_array(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  std::optional<Flow> fold_numpy_sequence(vm::Activation&, CallSite& site);
  std::optional<Flow> call_numpy(vm::Activation&, CallSite& site);
  std::optional<Flow> fold_numpy(vm::Activation&, const bytecode::Instruction&);
  std::optional<Flow> fold_numpy_unary(vm::Activation&, const bytecode::Instruction&);
  std::optional<Flow> array_binary(vm::Activation&, const bytecode::Instruction&);
  std::optional<Flow> call_from_array(vm::Activation&, CallSite& site);
  std::unordered_map<PyObject*, python::Ref> array_results_;  // tensors, by the late arrays that are copies of them
  std::optional<Flow> call_text_method(vm::Activation&, CallSite& site, PyObject* self);
  std::optional<Flow> call_clock(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  std::optional<Flow> call_generator(vm::Activation&, CallSite& site, PyObject* callable, PyObject* self);
  Flow settle_leak(Flow flow);
  /// An operator would come after a clock that a replay reads when its operators have run.
  bool runs_after_clock(const bytecode::Instruction& in) const;
  RecipeId recipe_late(PyObject* object);
  void restore_originals();

  // Tensors whose size depends on tensor data. (recorder_unsized.cpp)
  /// The object, or one in it down to `depth` containers.
  bool is_unsized(PyObject* object) const;
  bool may_operate_on_unsized(vm::Activation& activation, const bytecode::Instruction& in, int count) const;
  std::optional<Flow> settle_unsized(vm::Activation&, const bytecode::Instruction&);
  bool may_take_unsized(const CallSite& site, CallKind kind, PyObject* self, std::string_view name);
  /// What `.shape`, `.size()`, `len()` give of such a tensor: numbers that are late where data decides them.
  python::Ref unsized_size(PyObject* tensor, std::int64_t dimension);
  python::Ref unsized_shape(PyObject* tensor);
  std::optional<Flow> unsized_shape_attribute(vm::Activation&, PyObject* owner, PyObject* name, bool method);
  std::optional<Flow> call_unsized_size(vm::Activation&, CallSite& site, PyObject* self);
  /// Whether that attribute of the tensor is no matter of its size.
  bool is_type_of_unsized(PyObject* tensor, PyObject* name);

  // Sizes that may be others on each replay. (recorder_sizes.cpp)
  bool records_sizes() const { return limits_.varying_sizes != nullptr && !sizes_fixed_; }
  /// Whether tensors' sizes are to be read as host values.
  bool sizes_vary() const { return !sizes_fixed_ && (!open_tensors_.empty() || !operators_.sized_hosts().empty()); }
  /// The number in a tensor of one element that follows from sizes stays what it is now. False for another tensor.
  bool require_content(PyObject* tensor);
  std::optional<bool> assume_truth(vm::Activation& activation, const bytecode::Instruction& in, PyObject* tensor, std::int32_t jump);
  std::optional<Flow> assume_comparison(vm::Activation& activation, const bytecode::Instruction& in);
  std::optional<Flow> assume_item(vm::Activation& activation, const CallSite& site);
  bool has_open_sizes(PyObject* tensor);
  /// A torch.Size that holds host values.
  bool is_open_size(PyObject* object) const { return !open_sizes_.empty() && open_sizes_.count(object) != 0; }
  void learn_outside_tensor(PyObject* object, guards::SourceId source);
  void fix_sizes();
  bool may_have_raised_by_sizes(const bytecode::Instruction& in);
  bool holds_open_sizes(PyObject* object, int depth);
  void note_layout(PyObject* object);
  static bool is_seen_by_nobody(PyObject* tensor);
  std::unordered_map<graph::ValueId, std::int64_t> contents_;  // that are required
  HostId size_host(PyObject* tensor, std::int64_t dimension);
  HostId size_or_constant(PyObject* tensor, std::int64_t dimension);
  HostId element_count(PyObject* tensor);
  python::Ref make_host(HostId id, std::int64_t value);
  python::Ref make_size(PyObject* tensor);
  void note_open_size(PyObject* object);
  bool holds_late(PyObject* size) const;
  Flow format_size(vm::Activation&, const bytecode::Instruction&);
  void specialise_size(PyObject* object);
  /// The object takes the place of the operands: the instruction is done.
  Flow give(vm::Activation&, python::Ref object, int slots, bool method = false);
  std::optional<Flow> size_attribute(vm::Activation&, PyObject* owner, PyObject* name, bool method);
  std::optional<Flow> call_fold(vm::Activation&, CallSite& site, PyObject* callable, PyObject* self);
  std::optional<Flow> call_contiguous(vm::Activation&, CallSite& site, PyObject* self);
  std::optional<Flow> call_size(vm::Activation&, CallSite& site, PyObject* self);
  void settle_sizes(const CallSite& site, CallKind kind, std::string_view name);
  void look_at_recorded_sizes(const bytecode::Instruction&, PyObject* result);
  void take_kept_slice(const OperatorRecorder::IndexPart& part, PyObject* result);
  // (recorder_indices.cpp)
  void replace_index(PyObject** slot, const std::function<python::Ref(PyObject* item)>& made_of);
  void make_index_of_lists(PyObject* tensor, PyObject** slot);
  void make_numbers_of_bounds(PyObject** slot);
  bool offer_index(PyObject* tensor, PyObject* key, bool stores);
  bool require_window(PyObject* tensor, std::int64_t dimension, PySliceObject* slice);
  bool offer_slice(PyObject* tensor, std::int64_t dimension, PySliceObject* slice, OperatorRecorder::IndexPart& part);
  bool require_in_range(PyObject* tensor, std::int64_t dimension, const OperatorRecorder::IndexNumber& number);
  OperatorRecorder::IndexNumber index_number(PyObject* object);
  std::optional<Flow> index_tensor(vm::Activation&, const bytecode::Instruction&, PyObject* tensor, PyObject* key, int slots);
  void settle_odd_index(PyObject* key);
  bool compare_sizes(PyObject* left, PyObject* right);
  void finish_sizes();
  void leave_casts();

  // Knowledge. (recorder_objects.cpp)
  bool resolve(PyObject* object);                       // known now?
  bool resolve_slice(PyObject* slice);
  bool resolve_to_copy(PyObject* object);
  bool resolve_deep(PyObject* object, int depth = 0, bool keep_hosts = false);  // contents of exact containers too
  bool learn_external(PyObject* object, guards::SourceId source);
  bool learn_result(PyObject* object, int depth = 0);   // a result of recorded code: constants, known or fresh objects
  bool learn_contents(PyObject* container, Object& known, int depth);
  bool read_contents(PyObject* container, guards::SourceId source, int depth);
  bool learn_items(PyObject* list);
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
  bool is_weight(const at::Tensor& tensor) const;
  bool was_written(PyObject* container, PyObject* key);
  bool is_dirty(PyObject* container) { return dirty_.count(container) != 0; }

  // Attributes. (recorder_attributes.cpp)
  enum class Attribute : std::uint8_t { kValue, kCallGetter, kCallDescriptor, kCallGetattr, kMissing, kRun, kUnknown };
  Attribute look_up(PyObject* object, PyObject* name, PyObject** getter, guards::SourceId* source);
  Attribute look_up_instance(PyObject* object, PyObject* name, PyObject** getter, guards::SourceId* source, bool raw = false);
  Attribute look_up_function(PyObject* function, PyObject* name, PyObject** getter, guards::SourceId* source);
  bool learn_class_field(PyTypeObject* type, const std::string& name);
  void keep_metaclass(PyTypeObject* type);
  bool stays_plain_class(PyObject* object);
  bool is_class_key(PyObject* object);
  Attribute miss_on_class(PyTypeObject* type, PyObject* name);
  Attribute look_up_class(PyTypeObject* type, PyObject* name, PyObject** getter, guards::SourceId* source);
  Attribute look_up_gradient(PyObject* tensor, PyObject* name, guards::SourceId* source);
  bool store_gradient(PyObject* tensor, PyObject* name, PyObject* value);
  void require_distinct_gradients();
  void require_distinct_dicts();
  Attribute look_up_tensor(PyObject* tensor, PyObject* name, PyObject** getter, guards::SourceId* source);
  Attribute class_value(PyObject* owner_type_source_object, PyTypeObject* type, PyObject* name, PyObject* found, guards::SourceId* source,
                        PyObject** getter = nullptr);
  /// Whether the objects of a class hold what attributes the program likes, as those of classes written in Python do.
  static bool holds_attributes(PyTypeObject* type);
  /// types.SimpleNamespace
  static bool is_namespace(PyTypeObject* type);
  bool plain_setattr(PyTypeObject* type, PyObject* name);
  bool has_plain_delattr(PyObject* owner);
  bool delete_attribute(PyObject* owner, PyObject* name);
  bool store_attribute(PyObject* object, PyObject* name, PyObject* value);
  bool store_on_tensor(PyObject* tensor, PyObject* name, PyObject* value);
  Flow load_attr(vm::Activation&, const bytecode::Instruction&);
  Flow store_attr(vm::Activation&, const bytecode::Instruction&);
  Flow delete_attr(vm::Activation&, const bytecode::Instruction&);
  Flow load_super_attr(vm::Activation&, const bytecode::Instruction&);
  Flow before_with(vm::Activation&, const bytecode::Instruction&);

  // Enumerations, named tuples, descriptors, caches. (recorder_constants.cpp)
  std::optional<Flow> member_attribute(vm::Activation&, const bytecode::Instruction&, PyObject* owner, PyObject* name, bool method);
  std::optional<Flow> store_by_descriptor(vm::Activation&, const bytecode::Instruction&, PyObject* owner, PyObject* name, PyObject* value);
  Flow call_cached(vm::Activation&, CallSite& site);
  python::Ref key_part(PyObject* object, int depth = 0);

  // Which objects are the same. (recorder_identity.cpp)
  void note_compared(PyObject* object, int depth = 0);
  void note_keys(PyObject* container, int depth = 0);
  void note_object(PyObject* object);
  void note_compared_by(vm::Activation& activation, const bytecode::Instruction& in);
  void note_compared_by(const std::string& name, PyObject* self, const CallSite& site);
  void require_distinct_objects();

  // Loads, stores, stack. (recorder_moves.cpp)
  Flow plain(vm::Activation&, const bytecode::Instruction&);
  void learn_code_constant(PyObject* constant);
  Flow load_const(vm::Activation&, const bytecode::Instruction&);
  Flow load_fast(vm::Activation&, const bytecode::Instruction&);
  Flow store_fast(vm::Activation&, const bytecode::Instruction&);
  Flow load_fast_and_clear(vm::Activation&, const bytecode::Instruction&);
  Flow make_cell(vm::Activation&, const bytecode::Instruction&);
  Flow copy_free_variables(vm::Activation&, const bytecode::Instruction&);
  Flow load_closure(vm::Activation&, const bytecode::Instruction&);
  PyObject* known_cell(vm::Activation& activation, int slot);
  Flow load_deref(vm::Activation&, const bytecode::Instruction&);
  Flow store_deref(vm::Activation&, const bytecode::Instruction&);
  Flow delete_deref(vm::Activation&, const bytecode::Instruction&);
  Flow load_global(vm::Activation&, const bytecode::Instruction&);
  Flow load_name(vm::Activation&, const bytecode::Instruction&);
  Flow store_name(vm::Activation&, const bytecode::Instruction&);
  Flow read_global(vm::Activation&, PyObject* name);
  Flow store_global(vm::Activation&, const bytecode::Instruction&);
  bool learn_builtin(PyObject* globals, PyObject* name, PyObject* value);
  bool imports_plainly(vm::Activation& activation);
  python::Ref relative_name(vm::Activation& activation, PyObject* name, long level);
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
  std::optional<Flow> item_at_host(PyObject* container, PyObject* key);
  Flow subscript(vm::Activation&, const bytecode::Instruction&);
  Flow slice(vm::Activation&, const bytecode::Instruction&);
  Flow store_subscript(vm::Activation&, const bytecode::Instruction&);
  Flow build(vm::Activation&, const bytecode::Instruction&);
  Flow build_string(vm::Activation&, const bytecode::Instruction&);
  bool append_all(PyObject* list, PyObject* items);
  Flow extend(vm::Activation&, const bytecode::Instruction&);
  Flow append(vm::Activation&, const bytecode::Instruction&);
  Flow unpack(vm::Activation&, const bytecode::Instruction&);
  Flow get_iter(vm::Activation&, const bytecode::Instruction&);
  Flow for_iter(vm::Activation&, const bytecode::Instruction&);
  Flow intrinsic(vm::Activation&, const bytecode::Instruction&);
  Flow store_slice_of_tensor(vm::Activation&, const bytecode::Instruction&);
  Flow store_slice(vm::Activation&, const bytecode::Instruction&);
  Flow delete_subscript(vm::Activation&, const bytecode::Instruction&);
  Flow with_except_start(vm::Activation&, const bytecode::Instruction&);
  Flow get_yield_from_iter(vm::Activation&, const bytecode::Instruction&);
  Flow send(vm::Activation&, const bytecode::Instruction&);
  Flow match(vm::Activation&, const bytecode::Instruction&);
  Flow match_class(vm::Activation&, const bytecode::Instruction&);
  std::optional<Flow> fold_flags(vm::Activation&, const bytecode::Instruction&);
  Flow raise(vm::Activation&, const bytecode::Instruction&);
  Flow push_exception(vm::Activation&, const bytecode::Instruction&);
  bool is_handled(vm::Activation&);
  void adopt_keywords(std::size_t depth);
  void adopt_positional(std::size_t depth);
  void learn_called_by_c(vm::Activation& activation);
  bool learn_generator(PyObject* generator);
  bool learn_cells(python::Frame* frame);
  Flow yield_value(vm::Activation&, const bytecode::Instruction&);
  bool look_at_yielded(PyObject* value, const Pending& taker);
  enum class Truth : std::uint8_t { kKnown, kCall, kTensor, kUnknown };
  Truth truth_of(PyObject* object, PyObject** method);
  bool truth_is_fixed(PyObject* object);
  bool is_fresh_subclass(PyObject* object, PyTypeObject* base, const char* method);
  bool is_subclass(PyObject* object, PyTypeObject* base, const char* method);
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
    /// The positional arguments as a tuple.
    python::Ref pack_positional() const;
    /// The keyword arguments as a dict; null where there are none.
    python::Ref pack_keywords() const;
  };
  Flow call(vm::Activation&, const bytecode::Instruction&);
  Flow call_function_ex(vm::Activation&, const bytecode::Instruction&);
  Flow call_site(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_python(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_class(vm::Activation&, const bytecode::Instruction&, CallSite& site, bool by_type);
  Flow call_getter(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow handled_exception(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_exception(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_builtin(vm::Activation&, const bytecode::Instruction&, CallSite& site, PyObject* callable, PyObject* self);
  bool looks_unseen(PyObject* callable);
  bool holds_unseen(PyObject* tuple);
  bool is_key_known(PyObject* key);
  bool differs_by_type(PyObject* object);
  bool has_fixed_order(PyObject* set);
  void note_made_set(const bytecode::Instruction& in, PyObject* result);
  void note_set_written(PyObject* set, PyObject* added);
  /// Items of a fresh set in an order in which they may be added, to come in the order of now. Empty where there is none.
  std::optional<std::vector<python::Ref>> items_to_add(PyObject* set);
  bool is_kept_outside(PyObject* object);
  Flow call_reference(vm::Activation&, const bytecode::Instruction&, const CallSite& site);
  Flow call_partial(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_instance(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  Flow call_compiled(vm::Activation&, const bytecode::Instruction&, CallSite& site);
  /// Pops the operands and pushes an inlined call of `function`; the pc goes behind the instruction.
  Flow push(vm::Activation&, const bytecode::Instruction&, PyObject* function, const std::vector<PyObject*>& arguments, Py_ssize_t positional,
            PyObject* keyword_names, int slots, vm::Continuation continuation, PyObject* held = nullptr, bool null_below = false);

  // Calls of C functions whose doing is known. (recorder_models.cpp)
  struct ModelledCall;
  Flow call_modelled(vm::Activation&, const bytecode::Instruction&, CallSite& site, Model model, PyObject* self, PyObject* callable);
  Flow opaque(const ModelledCall& call);
  Flow go_on(const ModelledCall& call, Then then = Then::kLearnTop);
  Flow model_append(const ModelledCall& call);
  Flow model_dict_pop(const ModelledCall& call);
  Flow model_set_item(const ModelledCall& call);
  Flow model_write(const ModelledCall& call);
  Flow model_setattr(const ModelledCall& call);
  Flow model_delattr(const ModelledCall& call);
  Flow model_getattr(const ModelledCall& call);
  Flow model_generic_getattr(const ModelledCall& call);
  Flow model_isinstance(const ModelledCall& call);
  Flow model_next(const ModelledCall& call);
  Flow model_dict_get(const ModelledCall& call);
  Flow model_new(const ModelledCall& call);
  Flow model_context_get(const ModelledCall& call);
  Flow model_context_set(const ModelledCall& call);
  Flow model_context_reset(const ModelledCall& call);
  Flow model_id(const ModelledCall& call);
  Flow model_hash(const ModelledCall& call);
  Flow model_new_tuple(const ModelledCall& call);
  Flow model_write_first(const ModelledCall& call);
  Flow model_generator(const ModelledCall& call);
  Flow model_globals(const ModelledCall& call);
  Flow model_vars(const ModelledCall& call);
  Flow model_state(const ModelledCall& call);
  Flow model_set_device(const ModelledCall& call);
  Flow pop_outside_item(const ModelledCall& call, PyObject* key);
  Flow reset_by_outside_token(const ModelledCall& call, PyObject* token);
  /// Whether recorded code reset the variable to what it was before the segment began.
  bool is_reset(PyObject* variable) const;

  // copy.deepcopy. (recorder_copy.cpp)
  struct DeepCopy;
  bool learn_copier(DeepCopy& copy, PyTypeObject* type, const char* function_name);
  bool may_copy(DeepCopy& copy, PyObject* object, int depth);
  bool may_copy_items(DeepCopy& copy, PyObject* object, int depth);
  bool may_copy_attributes(DeepCopy& copy, PyObject* object);
  bool learn_helper(DeepCopy& copy, const char* helper);
  python::Ref make_copy(DeepCopy& copy, PyObject* object);
  std::optional<Flow> deep_copy(vm::Activation&, const bytecode::Instruction&, CallSite& site);

  // Calls that run in Python on each replay. (recorder_output.cpp)
  Flow host_call(vm::Activation&, CallSite& site, bool looks_at_frames);
  bool host_snapshot(vm::Activation& activation, HostCall& call);
  python::Ref host_argument(PyObject* argument);
  bool is_printable(PyObject* object);
  bool has_constant_text(PyObject* object);
  bool has_guarded_text(PyObject* object, int depth = 0);
  bool have_guarded_texts(PyObject* items, int depth);
  bool set_shows_only(PyObject* set, const std::function<bool(PyObject*)>& leaf);
  bool shows_only(PyObject* object, const std::function<bool(PyObject*)>& leaf, int depth = 0);
  python::Ref copy_structure(PyObject* object);
  bool effects_are_plain();
  bool learn_stream(PyObject* stream);
  bool learn_standard_stream(const char* name);
  bool learn_module_functions(const char* module_name, std::initializer_list<const char*> names);
  Flow print(vm::Activation&, CallSite& site);
  Flow warn(vm::Activation&, CallSite& site);
  bool is_log_call(const CallSite& site);
  static void find_level(const CallSite& site);
  Flow log(vm::Activation&, CallSite& site);

  // State of the thread, marks for profilers, collections. (recorder_modes.cpp)
  bool is_profiler_mark(PyObject* function, const std::vector<PyObject*>& arguments);
  Flow run_profiler_mark(vm::Activation&, PyObject* function, const std::vector<PyObject*>& arguments, Py_ssize_t positional, PyObject* keyword_names,
                         int slots, vm::Continuation continuation, PyObject* held, bool null_below);
  RecipeId recipe_profiler_record(PyObject* record);
  /// torch.inference_mode's __enter__ and __exit__ on a fresh object.
  bool is_inference_switch(PyObject* function, const std::vector<PyObject*>& arguments);
  bool may_enter_inference() const;
  bool inference_entered() const;
  void note_inference_switch(PyObject* self);
  bool is_inference_context(PyObject* object) const;
  RecipeId recipe_inference_context(PyObject* context);
  /// The inference mode at the exit is the entry's, or a context that is rebuilt sets it.
  bool inference_mode_is_kept() const;
  RecipeId recipe_collection(PyObject* object);
  Flow set_autocast(vm::Activation&, const bytecode::Instruction&, CallSite& site);

  // Class statements. (recorder_class.cpp)
  bool learn_builtin(vm::Activation& activation, PyObject* name, PyObject* genuine);
  Flow load_build_class(vm::Activation&, const bytecode::Instruction&);
  bool is_class_statement(PyObject* callable) const;
  Flow build_class(vm::Activation&, CallSite& site);
  RecipeId recipe_class(PyObject* object);

  /// Whether the instruction lets go of an object whose end the program may see. (recorder_lifetimes.cpp)
  bool lets_go_visibly(vm::Activation& activation, const bytecode::Instruction& in);
  bool any_end_is_seen(PyObject* object, int levels);
  bool any_item_end_is_seen(PyObject* dict, int levels);

  // Ends. (recorder_exit.cpp)
  Flow prepare(vm::Activation& activation, const bytecode::Instruction& instruction, int operands, Then then);
  Flow cut(BreakId id, std::string detail = "");
  Flow cut_here(const char* detail);
  void note_break(BreakId id, std::string detail);
  void note_raise(PyObject* exception);
  bool finish_at(vm::Activation* top, const Pending* ran, std::int32_t pc);
  Flow cut_afterwards(bool raised);
  void note_versions();
  std::uint32_t version_at_end(const at::Tensor& tensor) const;
  bool learn_pending(vm::Activation* top);
  /// What is learnt from now on is learnt in this instruction's line.
  void enter_line(const vm::Activation& activation, const bytecode::Instruction& in);
  void note_unseen_write(vm::Activation& activation, const bytecode::Instruction& in);
  bool turned_around(vm::Machine& machine, const vm::Activation& activation) const;
  void enter_machine(vm::Machine& machine);
  bool finish_return(PyObject* value);
  bool finish();
  bool frame_recipe(vm::Activation* activation, int depth, const Pending* ran, FrameRecipe& recipe);
  RecipeId recipe(PyObject* object);
  RecipeId make_recipe(PyObject* object);
  RecipeId recipe_constant(PyObject* object);
  RecipeId recipe_builtin_method(PyObject* object);
  RecipeId recipe_method_wrapper(PyObject* object);
  bool attributes_are_effects(PyObject* tensor) const;
  RecipeId recipe_instance(PyObject* object);
  RecipeId recipe_container(PyObject* object);
  RecipeId recipe_function(PyObject* object);
  RecipeId recipe_iterator(PyObject* object);
  RecipeId recipe_dict_iterator(PyObject* object);
  RecipeId recipe_of_reduced(PyObject* object);
  RecipeId recipe_exception(PyObject* object);
  bool recipe_traceback(PyObject* exception, RecipeId id);
  void require_nothing_handled();
  bool note_handled(const std::vector<vm::Activation*>& chain, Handling& handling);
  RecipeId recipe_generator(PyObject* object);
  RecipeId recipe_dict(PyObject* items, bool is_object = false);
  bool build_effects();
  std::int32_t source_line(vm::Activation& activation, const bytecode::Instruction& instruction);
  std::int32_t source_at(vm::Activation& activation, int line);

  vm::Machine& machine_;
  vm::Activation* base_;
  const python::Frame* base_frame_;  // to be compared with only: an exception may have left it
  Limits limits_;
  std::unique_ptr<Segment> segment_;
  guards::Program& guards_;
  HostProgram& host_;
  std::unordered_map<PyObject*, std::pair<python::Ref, HostId>> hosts_;
  std::unordered_map<PyObject*, Late> late_;
  std::unordered_set<HostId> volatile_;
  std::unordered_map<PyObject*, python::Ref> originals_;  // of the copies that host values and late ones are
  bool leaked_ = false;  // a value that no two replays share was taken for a constant
  bool after_clock_ = false;
  std::vector<python::Ref> kept_hosts_;  // specialised ones: their addresses stay theirs
  struct OpenTensor {
    std::uint64_t open = 0;           // bit a dimension
    std::vector<std::int64_t> sizes;  // as the guards see them: an operator of the segment may give it others
  };
  std::unordered_map<c10::TensorImpl*, OpenTensor> open_tensors_;  // from outside
  std::vector<guards::SourceId> open_sources_;
  std::unordered_map<PyObject*, python::Ref> open_sizes_;
  std::unordered_set<graph::ValueId> layouts_asked_;  // what may be contiguous or not has been asked for of these
  bool layout_unknown_ = false;   // of a tensor that is no value it has been
  std::unordered_set<graph::ValueId> unseen_arguments_;  // of `contiguous`: nobody can tell whether it gave these tensors themselves
  bool sizes_fixed_ = false;
  bool sizes_asked_ = false;  // the call that runs is torch's, and was given tensors of open sizes
  bool unsized_asked_ = false;  // the same of tensors whose sizes depend on data
  std::vector<std::pair<python::Ref, HostId>> loaded_hosts_;  // read by the instruction that is looked at
  OperatorRecorder operators_;
  std::unordered_map<PyObject*, Object> objects_;
  /// Numbers and texts from outside, and where they were read: what replays hand on are the objects that were given, not equal ones.
  std::unordered_map<PyObject*, std::pair<python::Ref, std::vector<guards::SourceId>>> outside_constants_;
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
    std::int32_t host = -1;
  };
  std::vector<PendingEffect> effects_;
  std::unordered_map<PyObject*, std::vector<python::Ref>> written_keys_;
  std::unordered_set<PyObject*> dirty_;  // lists written as a whole
  std::unordered_map<PyObject*, python::Ref> compared_;  // what containers have hashed or compared by identity
  bool compares_unseen_ = false;                         // what that was could not be seen: anything
  std::unordered_set<PyObject*> gradient_owners_;  // tensors from outside whose .grad was read or written
  bool writes_gradients_ = false;
  bool fills_cache_ = false;  // cut off at a call whose result functools.lru_cache does not hold yet
  std::uint64_t mutations_ = 0;
  std::uint64_t mutations_before_ = 0;  // when the handler of the instruction began: what it announces counts as done
  struct ContextSet {
    python::Ref variable, value, token;
  };
  std::vector<ContextSet> context_sets_;  // not reset yet
  struct MadeClass {
    python::Ref made, arguments;  // of __build_class__
    python::Ref contents;         // a copy of its dict
  };
  std::unordered_map<PyObject*, MadeClass> classes_;

  Pending pending_;
  vm::Machine* pending_machine_ = nullptr;
  std::vector<std::pair<vm::Machine*, Pending>> outer_pending_;  // of instructions whose C code called Python again
  bool poisoned_ = false;               // inside such a call something could not be recorded
  python::Ref broken_generator_;
  std::unordered_map<PyObject*, std::vector<python::Ref>> set_items_;  // of fresh sets that nothing was taken from: what was added, in order
  bool instruction_ran_ = false;        // the segment was cut off after its last instruction had run
  std::vector<std::pair<at::Tensor, std::uint32_t>> written_by_cut_;  // what the instruction cut off afterwards added to versions
  std::optional<Break> break_;
  TorchState entry_state_;
  std::unordered_map<PyObject*, RecipeId> recipe_memo_;
  std::unordered_set<PyObject*> recipes_begun_;  // of what is being looked into
  std::unordered_map<std::string, std::int32_t> line_index_;
  std::size_t learnt_ = 0;  // guards and host values when the instruction at hand began
  std::unordered_map<graph::ValueId, std::int32_t> output_index_;
  std::unordered_map<PyObject*, python::Ref> profiler_records_;  // what record_function objects hold, and the object
  std::unordered_map<PyObject*, bool> inference_contexts_;  // torch._C._InferenceMode objects that were made: entered?
  bool inference_rebuilt_ = false;
  std::vector<graph::ValueId>* recipe_outputs_ = nullptr;  // where tensors in recipes go; null: the graph's outputs
  Handling* recipe_handling_ = nullptr;  // where tracebacks go; null: exceptions that were raised cannot be rebuilt
  std::string recipe_failure_;
  int handlers_entered_ = 0;
  std::size_t instructions_ = 0, backward_jumps_ = 0;
  std::map<std::pair<vm::Activation*, std::int32_t>, std::size_t> turns_;  // by loop: its backward jumps so far
  std::uint64_t frames_ = 0;
};

}  // namespace dynrun::trace
