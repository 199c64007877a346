#pragma once
// Where gradients are needed libtorch's operators are replayed; what lies before the first of them need not be.

#include "graph/graph.h"
#include "runtime/executable.h"

#include <memory>
#include <optional>
#include <vector>

namespace dynrun::lowering {

/// A graph in two: `rest` takes the inputs of the whole, then the outputs of `first`, and gives the outputs of the whole.
struct Split {
  std::shared_ptr<graph::Graph> first, rest;
  std::vector<std::size_t> first_inputs;  // which inputs of the whole `first` takes
};

/// Cuts a graph before its first node that takes or gives a tensor that requires grad. Nothing where less than three nodes
/// lie before it, or where one of them writes in place or hands on a view.
std::optional<Split> split_before_gradients(const graph::Graph& graph);

/// Runs one after the other.
std::unique_ptr<runtime::Executable> make_split(const Split& split, std::unique_ptr<runtime::Executable> first,
                                                std::unique_ptr<runtime::Executable> rest);

}  // namespace dynrun::lowering
