#pragma once
// Records tensor operators at the dispatcher: a boxed fallback on a key above autograd, autocast and functorch sees exactly
// the operators that the program calls, not what they are made of. Knows nothing of Python.
//
// The key is switched on per thread, and only around calls that may be recorded. Recorded tensors are known by their
// TensorImpl; a weak pointer pins each address without keeping the storage, so that recording costs no memory to speak of.

#include "graph/graph.h"
#include "graph/intervals.h"
#include "trace/data_sizes.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <array>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace dynrun::trace {

/// Why an operator call could not become a node.
enum class Refusal : std::uint8_t {
  kNone,
  kUnknownTensor,      // an argument of unknown provenance
  kDataDependent,      // the result's shape, or a number returned, depends on tensor data
  kUnsupportedLayout,  // sparse, nested, quantised, wrapper tensors
  kMayRaiseAfterWrite, // could raise after an outside tensor was written
  kUnrecordable,       // an argument of a type the graph has no form for
  kRaised,             // the operator raised
  kWriteAfterOutput,   // writes a tensor that something printed, or an outside one after something was printed
};

class OperatorRecorder {
 public:
  OperatorRecorder();

  /// Called for a tensor that no recorded operator made: gives its graph input, or kNoValue when it has no provenance.
  std::function<graph::ValueId(const at::Tensor&)> resolve_outside;
  /// Whether such a tensor is a module's parameter or buffer. What an operator is given becomes inputs in torch.compile's order: tensors
  /// that have been asked for their types, weights, and all else.
  std::function<bool(const at::Tensor&)> is_weight;
  std::unordered_set<const c10::TensorImpl*> asked;

  /// Torch forgets the casts that it has kept.
  void forget_casts();
  /// A weight and its cast, as the graph has them.
  struct KeptCast {
    graph::ValueId weight, cast;
  };
  /// Those that torch keeps at the recording's end and had not at its beginning.
  const std::vector<KeptCast>& kept_casts() const { return kept_casts_; }
  /// How many nodes are casts that autocast made.
  std::size_t cast_count() const;
  void drop_unused_gradients();
  /// Whether torch may hold casts of weights from before the recording: a region of autocast had begun.
  bool casts_may_be_kept = false;

  std::shared_ptr<graph::Graph> graph() const { return graph_; }

  struct Mark {
    std::size_t nodes, values, inputs, checks, proofs;
    bool wrote_outside;
  };
  Mark mark() const;
  /// Forgets everything recorded since `mark`.
  void rewind(const Mark& mark);

  /// The value that `tensor` is, or kNoValue. Inputs and results of nodes are known while the recorder lives.
  graph::ValueId find(const at::Tensor& tensor) const;
  /// The recorded tensor of a value, undefined when it has died.
  at::Tensor tensor(graph::ValueId id) const;
  graph::ValueId add_input(const at::Tensor& tensor, graph::InputKind kind, std::string name);
  /// The value that `tensor` is, or becomes as an input of the graph.
  graph::ValueId value_of(const at::Tensor& tensor);

  /// Whether the last calls since `clear_refusal` were all recorded; else why the first was not, and which operator it was.
  Refusal refusal() const { return refusal_; }
  const std::string& refused_operator() const { return refused_operator_; }
  void refuse(Refusal why, const std::string& name);
  void clear_refusal();

  /// A tensor made from Python data that no program gets at: it is an argument as it is.
  void add_literal(const at::Tensor& tensor);
  /// Tensors made from Python data: the same contents on every replay, since the data is guarded. By graph value.
  const std::vector<std::pair<graph::ValueId, at::Tensor>>& constants() const { return constants_; }

  /// Whether a value follows from constants alone (a position index, a mask of sizes): the same on every replay.
  bool is_constant(graph::ValueId id) const { return constant_values_.count(id) != 0; }
  /// Whether a value follows from constants and from numbers that decide sizes: the same on every replay at the same sizes.
  bool follows_from_sizes(graph::ValueId id) const { return size_values_.count(id) != 0; }
  /// A host value that follows from sizes.
  void note_size_number(std::int32_t host) { size_hosts_.insert(host); }
  /// The one number in such a value is required to be what it is now: it may be looked at.
  void settle_content(graph::ValueId id) { settled_contents_.insert(id); }
  /// Operators of the program that are no nodes, less nodes that are none of the program's.
  std::ptrdiff_t uncounted() const { return static_cast<std::ptrdiff_t>(looked_at_) - static_cast<std::ptrdiff_t>(checks_.size() + numbers_.size()); }
  /// At the end: puts checks of indices, and what they need, in front of the first write to an outside tensor. (range_checks.cpp)
  void hoist_checks();
  /// Indices that were found to be in range at the sizes of the recording.
  const std::vector<graph::RangeProof>& proofs() const { return proofs_; }

  /// Whether any of the value's sizes depends on tensor data.
  bool is_unsized(graph::ValueId id) const { return data_sizes_.has(id); }
  bool decides_size(graph::ValueId id, std::size_t dimension) const { return data_sizes_.is_decided(id, dimension); }
  bool any_unsized() const { return data_sizes_.any(); }

  /// A host value given to the call that runs: where it may turn up among the operator's arguments, and its value now.
  struct HostArgument {
    std::size_t position;
    std::string name;  // of a keyword, else empty
    c10::Scalar value;
    std::int32_t host;
    bool bound = false;
    std::int32_t item = -1;  // of a tuple or list that is given there
    bool behind_list = false;  // a tuple or list is given in front of it
    graph::ValueId data = graph::kNoValue;    // a number that data decides, in the place of a host value
    graph::ValueId tensor = graph::kNoValue;  // a tensor of one integer: `data` when torch has asked for its number
  };
  /// The first operator that the call gives to the dispatcher takes its host values from there; those it took are marked.
  std::vector<HostArgument> host_arguments;
  /// The function that they were given to. Only the operator of that name has them in the places of sizes.
  std::string host_callee;
  /// Whether host values may take the places of sizes, so that the types of results are those of the recording only.
  bool binds_sizes = false;
  /// A number of an index that is a host value.
  struct IndexNumber {
    std::int32_t host = -1;
    std::int64_t value = 0;
    bool bound = false;
    graph::ValueId data = graph::kNoValue;  // a number that data decides

    bool is_given() const { return host >= 0 || data != graph::kNoValue; }
  };
  /// A number of tensor data, or where there is no value a constant.
  struct Number {
    graph::ValueId value = graph::kNoValue;
    c10::Scalar now;
  };
  /// Element `index` of a recorded tensor as a number that operators take. One value however often it is asked for. (data_numbers.cpp)
  Number add_element(const at::Tensor& of, std::int64_t index, const c10::Scalar& now);
  /// A host value, for arithmetic with such numbers.
  Number add_host(std::int32_t host, const c10::Scalar& now);
  /// The size of a recorded tensor that data decides.
  Number add_size(const at::Tensor& of, std::int64_t dimension);
  /// "add", "sub", "mul", "floordiv", "mod", "truediv" as Python does it, or "float" of the left one.
  Number add_arithmetic(const std::string& how, const Number& left, const Number& right, const c10::Scalar& now);
  /// An item of an index that becomes a select or slice operator, in order.
  struct IndexPart {
    bool slice, left_out, in_range, moves;  // in_range: the index is required to be; moves: as many elements on each replay
    std::int64_t dimension;                // of the tensor that the operator gets
    bool takes_all = false, taken = false;  // the whole dimension, from the first element on, where other replays may take less; by an operator
    std::array<IndexNumber, 3> numbers{};  // start, stop, step; of a select the index
  };
  std::vector<IndexPart> index_parts;
  /// Host values in the places of sizes and indices, and what they are now.
  const std::unordered_map<std::int32_t, std::int64_t>& sized_hosts() const { return sized_hosts_; }
  /// The numbers that graph inputs are now.
  const std::unordered_map<graph::ValueId, c10::Scalar>& host_numbers() const { return host_numbers_; }
  /// The host value that a graph input stands for, by the input's value.
  const std::unordered_map<graph::ValueId, std::int32_t>& host_inputs() const { return host_inputs_; }

  /// Whether the instruction hands torch numbers that data decides, and whether an operator has taken each of them for its own.
  bool offers_data() const;
  bool took_data_indices() const;
  /// Whether torch has asked a tensor for its number as often as an operator has taken it for its own.
  bool took_answers() const { return answered_ == taken_answers_; }

  /// From here on the tensor is the result of `contiguous`, which is another tensor where this one's like is not contiguous. False for
  /// one that is not of the graph.
  bool take_as_contiguous(const at::Tensor& tensor);
  /// From here on the tensor is the slice of what it was that the part of an index says, and torch left out.
  bool take_as_slice(const at::Tensor& tensor, const IndexPart& part);

  /// Values made from now on belong to the call that runs: torch.tensor makes one, then fills it behind the dispatcher.
  void start_instruction() {
    instruction_values_ = graph_->values.size();
    host_arguments.clear();
    host_callee.clear();
    index_parts.clear();
    index_part_ = ~std::size_t{0};
    host_calls_ = 0;
    answered_ = taken_answers_ = 0;
  }

  /// Something is printed here: from now on outside tensors, and those it shows (`freeze`), may not be written.
  void note_output() { wrote_output_ = true; }
  void freeze(const at::Tensor& tensor);

  void set_source(std::int32_t line) { source_ = line; }
  bool wrote_outside() const { return wrote_outside_; }
  /// By input: whether nothing but operators that surely leave it alone takes it. `inputs`: the recording's.
  std::vector<bool> only_read(const std::vector<at::Tensor>& inputs) const;
  /// Which of them the operators write, running statistics too.
  std::vector<std::size_t> written(const std::vector<at::Tensor>& inputs) const;
  /// Tensors whose sizes or strides were changed in place.
  const std::unordered_set<const c10::TensorImpl*>& reshaped() const { return reshaped_; }
  /// Whether any node writes a tensor in place.
  bool wrote() const { return wrote_; }

  void call(const c10::OperatorHandle& op, torch::jit::Stack* stack);

 private:
  struct Known {
    c10::weak_intrusive_ptr<c10::TensorImpl> pin;
    graph::ValueId value;
  };
  bool bind_host(const c10::OperatorHandle& op, std::size_t at, const c10::IValue& value, graph::Argument& argument);
  bool only_sizes(const graph::Node& node) const;
  bool looks_at_settled(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const;
  graph::Argument host_input(std::int32_t host, const c10::Scalar& number, bool sized);
  bool take_as_result(const at::Tensor& tensor, graph::Node node);
  bool bind_list(const c10::Argument& formal, std::size_t at, const c10::IValue& value, graph::Argument& argument);
  bool bind_index(const c10::OperatorHandle& op, std::size_t at, const c10::IValue& value, graph::Argument& argument);
  void find_index_part(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);
  bool argument_of(const c10::IValue& value, graph::Argument& argument);
  void bring_in_first(const torch::jit::Stack& stack, std::size_t first);
  bool tensor_argument(const at::Tensor& tensor, graph::Argument& argument);
  bool may_raise_on_sizes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const;
  bool touches_unsized(const graph::Node& node) const;
  bool learn_data_sizes(const graph::Node& node);
  bool only_constants(const torch::jit::Stack& stack, std::size_t first) const;
  bool fills_with_literal(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const;
  void note_constants(const c10::OperatorHandle& op, const graph::Node& node, bool constant_arguments);
  void record_literal(const at::Tensor& tensor);
  HostArgument* number_at(const at::Tensor& tensor, std::int64_t item);
  bool record_numbers(const at::Tensor& tensor);
  bool record_results(const c10::OperatorHandle& op, graph::Node& node, const torch::jit::Stack& stack, std::size_t first);
  graph::ValueId result_value(const at::Tensor& tensor, const std::string& name);
  bool takes_place(const HostArgument& host, bool sized) const;
  bool answer_item(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::size_t first);
  Number add_number(const std::string& op, std::vector<graph::Argument> arguments, const c10::Scalar& now);
  bool may_raise_on_numbers(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const;
  bool may_raise_on_history(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const;
  bool is_checked_early(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);
  bool is_input(graph::ValueId id) const;
  std::optional<std::vector<std::size_t>> nodes_before_writes(graph::ValueId id) const;
  Refusal refuse_before(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);
  bool writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first,
              const std::unordered_set<c10::StorageImpl*>& storages) const;
  void note_writes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first);

  void call_casting(const c10::OperatorHandle& op, c10::DispatchKey key, torch::jit::Stack* stack, std::size_t first);
  void call_cast(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::size_t first);
  void call_watched(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::size_t first, graph::Mode& mode);
  void record_cast(const at::Tensor& from, const at::Tensor& cast);
  bool record_kept_cast(const at::Tensor& cast);
  static graph::Mode mode_now();

  std::unordered_set<graph::ValueId> casts_;                // results of nodes that the program did not call
  std::vector<KeptCast> kept_casts_;
  const std::vector<at::Tensor>* cast_operands_ = nullptr;  // of the operator that autocast is casting for
  std::shared_ptr<graph::Graph> graph_;
  std::unordered_map<c10::TensorImpl*, Known> known_;
  std::vector<c10::TensorImpl*> known_order_;  // by value id, for rewinding
  Refusal refusal_ = Refusal::kNone;
  std::string refused_operator_;
  std::vector<std::pair<graph::ValueId, at::Tensor>> constants_;
  std::unordered_set<graph::ValueId> constant_values_, size_values_, settled_contents_;
  DataSizes data_sizes_;
  std::unordered_set<c10::StorageImpl*> unsized_storages_;  // where tensors of such sizes lie or lay; addresses, which are pinned
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> unsized_pins_;
  std::unordered_map<graph::ValueId, std::int32_t> host_inputs_;
  std::unordered_map<std::int32_t, std::int64_t> sized_hosts_;
  std::unordered_set<std::int32_t> size_hosts_;  // that follow from sizes
  std::unordered_map<graph::ValueId, c10::Scalar> host_numbers_;  // and numbers that data decides
  std::map<std::string, graph::ValueId> numbers_;  // that data decides, by what makes them
  std::size_t index_part_ = ~std::size_t{0};  // of `index_parts`: what the operator that is being recorded stands for
  std::size_t host_calls_ = 0;  // operators called since the instruction began
  std::size_t answered_ = 0, taken_answers_ = 0;  // numbers that torch asked tensors for since then, and places that took them
  std::size_t looked_at_ = 0;
  std::size_t instruction_values_ = 0;
  std::int32_t source_ = -1;
  std::unordered_set<c10::StorageImpl*> outside_storages_;  // of the inputs, which the recorder's owner keeps alive
  std::unordered_set<c10::StorageImpl*> frozen_;            // of tensors that were printed, which the recorder's owner keeps alive
  bool wrote_output_ = false;
  bool wrote_ = false;
  bool wrote_outside_ = false;
  std::unordered_set<const c10::StorageImpl*> written_inside_;            // storages that the segment made; addresses, compared only
  std::unordered_map<graph::ValueId, const c10::StorageImpl*> storage_of_;  // of results, when they were made
  std::unordered_map<c10::StorageImpl*, std::size_t> written_at_;  // outside storages: by which node first
  /// An index that has to lie within a dimension of a tensor.
  struct RangeCheck {
    graph::ValueId index, of;
    std::int64_t dimension;
    std::vector<std::size_t> nodes;  // that both need
  };
  std::vector<RangeCheck> checks_;
  std::vector<graph::RangeProof> proofs_;
  std::unordered_set<const c10::TensorImpl*> reshaped_;
};

/// What a number that data decides was in the recording, by the node that makes it.
c10::Scalar recorded_number(const graph::Node& node);

/// While it lives, operators called on this thread go to `recorder`.
class RecordingScope {
 public:
  explicit RecordingScope(OperatorRecorder* recorder);
  ~RecordingScope();
  RecordingScope(const RecordingScope&) = delete;
  RecordingScope& operator=(const RecordingScope&) = delete;

 private:
  OperatorRecorder* outer_;
  bool key_was_on_;
};

/// While it lives nothing on this thread is recorded: neither operators nor Python code.
class UnrecordedScope {
 public:
  UnrecordedScope();
  ~UnrecordedScope();
  UnrecordedScope(const UnrecordedScope&) = delete;
  UnrecordedScope& operator=(const UnrecordedScope&) = delete;

 private:
  c10::impl::ExcludeDispatchKeyGuard without_key_;
  bool outer_;
};

/// While it lives nothing on this thread is recorded, and the thread's dispatch keys are as the program set them: for code that
/// remembers them to put them back later, when nobody records.
class PlainKeysScope {
 public:
  PlainKeysScope();
  ~PlainKeysScope();
  PlainKeysScope(const PlainKeysScope&) = delete;
  PlainKeysScope& operator=(const PlainKeysScope&) = delete;

 private:
  bool key_was_on_, outer_;
};

/// Whether this thread is inside an operator, or where none would be seen: Python code that implements one is not the program's.
bool inside_operator();

/// Top-level operators of threads where it is switched on. (Of other threads the last few may be missing.)
std::uint64_t operator_count();
/// Of this thread alone.
std::uint64_t operators_here();
/// More, or fewer, of this thread's.
void count_operators(std::int64_t more);
/// For a while, whether operators are counted or not.
void measure_on_this_thread(bool on);
/// On this thread, and on each that runs Python code from now on (`count_on_a_new_thread`, which is called where it may do so, with the GIL).
void count_on_all_threads(bool on = true);
void count_on_a_new_thread();

/// What counting is to a thread.
enum class Counting {
  kNeeded,     // what it runs next is counted, or is not, whatever it has run so far
  kInside,     // it is inside of an operator that was counted
  kForReport,  // only reports want it
};
/// kNeeded until the thread has counted so many.
Counting counting_here(std::uint64_t exact);
/// While it lives each operator of the thread is looked at for which the hook asks that. Those that are waiting for a look still are behind it.
class LooksApart {
 public:
  LooksApart();
  ~LooksApart();
  LooksApart(const LooksApart&) = delete;
  LooksApart& operator=(const LooksApart&) = delete;

 private:
  std::uint32_t passed_, to_pass_;
};
/// Behind code that may have put back dispatch keys which it had found while nothing was counted. Where only reports want it, or it does nothing.
void go_on_counting();

/// While it lives no operator of this thread is counted. Where only reports want it.
class UncountedScope {
 public:
  UncountedScope();
  ~UncountedScope();
  UncountedScope(const UncountedScope&) = delete;
  UncountedScope& operator=(const UncountedScope&) = delete;
};

}  // namespace dynrun::trace
