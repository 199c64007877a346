#pragma once
// What is known of operators beyond their schema.

#include "graph/graph.h"

namespace dynrun::graph {

/// "add" of aten::add_.Tensor; empty for what is not ATen's.
std::string_view base_name(const c10::OperatorHandle& op);

/// The constant that a node has for the parameter of that name; null where it has a value for it, or no such parameter.
const c10::IValue* constant_of(const Node& node, std::string_view parameter);
/// Whether it may draw from a generator: not without dropout, or where it is told that it does not train.
bool draws_random(const Node& node);

/// Those that work element by element on tensors of one size, whatever it is, raise for none of them and give new memory.
bool is_elementwise(std::string_view base_name);
/// Those that make one number of a tensor of any size.
bool sums_up(std::string_view base_name);

/// Of an index: whether it chooses by truth, so that how many elements there are depends on its data.
bool is_mask(c10::ScalarType type);
/// Those that give a view of their first argument, whatever its sizes are.
bool is_view(std::string_view base_name);
/// Those that copy where the result does not fit into their argument's memory as it lies. `contiguous` gives its argument itself
/// elsewhere, the others a view.
bool copies_by_layout(std::string_view base_name);
/// Whether a result may be an argument or a view of one, by the operator's schema or in spite of it.
bool may_give_argument(const c10::OperatorHandle& op);
/// Whether the node reads or makes a tensor whose sizes depend on data.
bool touches_unsized(const Graph& graph, const Node& node);
/// Whether a number that tensor data decides stands among its arguments: it may be any, also one that the operator does not take.
bool takes_data_number(const Graph& graph, const Node& node);

/// Whether an operator may fail on some data though types and shapes are right: by what it indexes with, by the domain of its
/// algorithm. `integers`: its second argument, a divisor or exponent maybe, is a tensor of integers or a number of each replay.
bool may_raise_on_data(const c10::OperatorHandle& op, bool integers);
/// Whether it may do so after it has written a part of its result, which a second run would change again.
bool raises_half_way(const c10::OperatorHandle& op, bool integers);
/// The same of a node: an index that each replay computes is data too.
bool may_raise_on_data(const Graph& graph, const Node& node);

}  // namespace dynrun::graph
