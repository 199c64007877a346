#pragma once
// The graph IR: what a segment computes, as ATen operators over values.
//
// A graph is what the recorder saw: nodes stand in the order in which the program ran them, in-place operators and views
// included. Passes in lowering/ bring it to a functional form; they take a graph that `verify` accepts and return one.

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace dynrun::graph {

using ValueId = std::int32_t;
constexpr ValueId kNoValue = -1;

/// What is known of a tensor: sizes and strides are in elements, as recorded (the hint when a size is symbolic).
struct TensorType {
  c10::ScalarType dtype = c10::ScalarType::Float;
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  bool requires_grad = false;
  bool number = false;  // a Python number in a tensor of no dimensions: it takes part in type promotion as a number
  bool lazy = false;    // conjugated, negated or zero by a bit of the tensor: not what lies in its memory
  bool unsized = false;  // sizes and strides depend on tensor data: a replay's own may be others. Nodes only make such values.

  /// Reads the type of a defined, strided tensor; other layouts give empty strides.
  static TensorType of(const at::Tensor& tensor);
  std::int64_t element_count() const;
  bool is_contiguous() const;
  bool operator==(const TensorType&) const = default;
};

/// A host value is a Python number that a replay computes anew: a size, a counter, `.item()`.
enum class HostType : std::uint8_t { kInt, kFloat, kBool };

struct Value {
  std::variant<TensorType, HostType> type;
  std::string name;  // unique in the graph; readable (`conv1`, `arg0.layer1[0].weight`)

  bool is_tensor() const { return std::holds_alternative<TensorType>(type); }
  const TensorType& tensor() const { return std::get<TensorType>(type); }
};

/// One argument of a node, in schema order: a constant, a value, or a list of arguments (Tensor[], int[] with host values).
struct Argument {
  struct Constant {
    c10::IValue value;  // never holds a tensor; None stands for an absent optional
  };
  std::variant<Constant, ValueId, std::vector<Argument>> payload = Constant{};

  static Argument constant(c10::IValue value) { return {Constant{std::move(value)}}; }
  static Argument reference(ValueId id) { return {id}; }
  static Argument list(std::vector<Argument> items) { return {std::move(items)}; }

  bool is_constant() const { return std::holds_alternative<Constant>(payload); }
  bool is_value() const { return std::holds_alternative<ValueId>(payload); }
  bool is_list() const { return std::holds_alternative<std::vector<Argument>>(payload); }
  const c10::IValue& constant() const { return std::get<Constant>(payload).value; }
  ValueId value() const { return std::get<ValueId>(payload); }
  const std::vector<Argument>& items() const { return std::get<std::vector<Argument>>(payload); }
};

/// The thread-local state that a node ran under.
struct Mode {
  bool grad_enabled = false;
  bool inference = false;
  bool autocast = false;  // an operator that is made of some that autocast casts for: libtorch runs it
  c10::DeviceType autocast_device = c10::DeviceType::CPU;
  c10::ScalarType autocast_dtype = c10::ScalarType::BFloat16;
  bool operator==(const Mode&) const = default;
};

struct SourceLine {
  std::string file;
  std::string function;
  int line = 0;
};

/// Where a node comes from. Graphs for other back ends say who called, too.
struct Source : SourceLine {
  std::int32_t caller = -1;   // index into Graph::sources
  std::string module, class_name;  // of torch.nn, whose call runs here (Module._call_impl): its path and class; empty elsewhere
};

struct Node {
  c10::OperatorHandle op;
  std::vector<Argument> arguments;  // every argument of the schema, in order
  /// The tensors and host values returned, flattened in order. An in-place operator returns the value it wrote
  /// (outputs[0] is then an earlier value); kNoValue stands for an undefined tensor or an unused non-tensor return.
  std::vector<ValueId> outputs;
  /// For each return of the schema, how many of `outputs` it stands for: -1 a single one, n a list of n.
  std::vector<std::int32_t> return_lengths;
  Mode mode;
  std::int32_t source = -1;  // index into Graph::sources

  /// "aten::add.Tensor"
  std::string op_name() const;
};

enum class InputKind : std::uint8_t {
  kActivation,  // another tensor at each call
  kParameter,   // the same tensor until its guard says otherwise: may be folded, prepacked, read at compile time
};

struct Input {
  ValueId value = kNoValue;
  InputKind kind = InputKind::kActivation;
};

struct Graph {
  std::vector<Value> values;
  std::vector<Input> inputs;
  std::vector<Node> nodes;
  /// Values handed out at the end. An output that is an input, or a view of an input or of another output, keeps that aliasing.
  std::vector<ValueId> outputs;
  std::vector<Source> sources;

  ValueId add_value(Value value);
  ValueId add_input(TensorType type, InputKind kind, std::string name);
  const TensorType& type_of(ValueId id) const { return values[static_cast<std::size_t>(id)].tensor(); }
  bool any_grad_mode() const;
};

/// Text form, one node a line; `parse` reads it back. The format is described in printer.cpp.
std::string print(const Graph& graph);
/// Throws std::invalid_argument naming the line that could not be read.
Graph parse(std::string_view text);
/// Empty when the graph is well formed, else what is wrong and where.
std::optional<std::string> verify(const Graph& graph);

}  // namespace dynrun::graph
