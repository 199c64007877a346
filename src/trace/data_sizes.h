#pragma once
// Sizes that tensor data decides (nonzero, unique, a mask as index), and how they go on through what is computed of them.
//
// Such a size is a symbol: nobody knows it before a replay, but the operators of one replay agree on it. Which dimensions of a
// result follow from a symbol is found by asking for the result's sizes at other values of it (graph::infer, runtime::try_out).

#include "graph/graph.h"

#include <functional>
#include <optional>
#include <unordered_map>
#include <vector>

namespace dynrun::trace {

/// A Python number in a tensor without dimensions, which takes part in type promotion as a number.
at::Tensor wrapped_number(const c10::Scalar& number);

/// Whether the operator decides by data how large its result is, which is new memory. `is_mask`: whether the argument in that place is a
/// list with a mask in it; `number`: the number in that place, if it is one.
bool decides_sizes(const c10::OperatorHandle& op, const std::function<bool(std::size_t)>& is_mask, const std::function<std::optional<std::int64_t>(std::size_t)>& number);
/// The same of a node.
bool decides_sizes(const graph::Graph& graph, const graph::Node& node);

using ValueOf = std::function<const c10::IValue&(graph::ValueId)>;
/// What a node that decides sizes gives, on the Meta device, for operands in these sizes: `count` stands for what data decides. Empty where
/// that is not known.
std::vector<at::Tensor> decided_results(const graph::Graph& graph, const graph::Node& node, const ValueOf& value, std::int64_t count);

class DataSizes {
 public:
  bool any() const { return !dims_.empty(); }
  bool has(graph::ValueId id) const { return dims_.count(id) != 0; }

  /// Learns what a node gives that takes or makes such sizes: its outputs' types are those of the recording. `number`: the value of an
  /// input that is a number. False where its results have sizes or dimensions that are not understood.
  bool learn(graph::Graph& graph, const graph::Node& node, const std::function<c10::IValue(graph::ValueId)>& number);
  /// Whether data decides how large the value is in that dimension.
  bool is_decided(graph::ValueId id, std::size_t dimension) const { return has(id) && dims_.at(id)[dimension] != kNone; }
  /// A number that data decides, which is `now`.
  void add_number(graph::ValueId id, const c10::Scalar& now);
  /// A number that is the size of the value in that dimension.
  void add_size(graph::ValueId id, graph::ValueId of, std::size_t dimension, std::int64_t now);
  /// Forgets values from `end` on.
  void rewind(std::size_t end);

 private:
  using Symbol = std::int32_t;
  static constexpr Symbol kNone = -1;
  using Dims = std::vector<Symbol>;  // one a dimension
  using Number = std::function<c10::IValue(graph::ValueId)>;
  using AllSizes = std::vector<std::vector<std::int64_t>>;  // of a node's outputs

  Symbol add_symbol(std::int64_t now);
  std::vector<Symbol> symbols_of(const graph::Node& node) const;
  std::optional<AllSizes> sizes_at(const graph::Graph& graph, const graph::Node& node, const Number& number, Symbol symbol, std::int64_t now) const;
  std::optional<AllSizes> decided_at(const graph::Graph& graph, const graph::Node& node, const Number& number, std::int64_t count) const;
  struct Probe {
    Symbol symbol;
    std::int64_t value;
    AllSizes sizes;  // where the symbol has the value
  };
  using Made = std::vector<std::pair<std::vector<std::int64_t>, Symbol>>;  // symbols of one node's results, by their values in its probes
  std::optional<std::vector<Probe>> probe(const graph::Graph& graph, const graph::Node& node, const Number& number) const;
  Symbol symbol_for(std::int64_t recorded, const std::vector<Probe>& probes, std::size_t result, std::size_t dimension, Made& made);
  bool is_alike_at_all_sizes(const graph::Graph& graph, const graph::Node& node) const;
  c10::IValue number_at(const Number& number, graph::ValueId id, Symbol symbol, std::int64_t now) const;
  bool learn_parts(graph::Graph& graph, const graph::Node& node, const std::vector<graph::Argument>& sizes);
  bool takes_from_start(const graph::Graph& graph, const graph::Node& node) const;
  bool learn_recurrent(graph::Graph& graph, const graph::Node& node);
  void learn_packed(graph::Graph& graph, const graph::Node& node);
  void learn_unpacked(graph::Graph& graph, const graph::Node& node);
  void learn_decided(graph::Graph& graph, const graph::Node& node, const Number& number);
  bool learn_derived(graph::Graph& graph, const graph::Node& node, const Number& number);
  void note(graph::Graph& graph, const graph::Node& node, const std::vector<Dims>& dims);
  at::Tensor stand_in(const graph::TensorType& type, graph::ValueId id, Symbol symbol, std::int64_t now) const;

  std::unordered_map<graph::ValueId, Dims> dims_;  // of values that have any such size
  std::vector<std::int64_t> now_;                  // by symbol: its value in the recording
};

}  // namespace dynrun::trace
