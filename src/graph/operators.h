#pragma once
// What is known of operators beyond their schema.

#include "graph/graph.h"

#include <string_view>

namespace dynrun::graph {

/// Operators, by name, that may fail on some data though types and shapes are right: by the data they index with, mostly.
bool may_raise_on_data(std::string_view name);
/// The same of a node: an index that each replay computes is data too.
bool may_raise_on_data(const Node& node);

}  // namespace dynrun::graph
