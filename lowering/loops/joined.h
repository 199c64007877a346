#pragma once
// A concatenation as one expression: at each place the element of the part that lies there. Who reads it element by element needs
// no buffer then.

#include "lowering/loops/expression.h"

#include <functional>
#include <optional>

namespace dynrun::lowering {

/// `part`: what a part is, over its own sizes, without reductions. Nothing where the node is no concatenation of parts of one type
/// that all have elements.
std::optional<Definition> joined(const graph::Graph& graph, const graph::Node& node, const std::function<Expr(graph::ValueId)>& part);

}  // namespace dynrun::lowering
