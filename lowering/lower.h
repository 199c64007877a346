#pragma once
// From a recorded graph to compiled code: the one entry point of lowering/.

#include "graph/graph.h"
#include "runtime/executable.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dynrun::lowering {

class Shared;

struct Options {
  /// Fold and prepack inputs of kind kParameter. The caller then guards each folded input's identity, data and version.
  bool fold_parameters = true;
  /// What lowerings of one graph at several sizes share; null where there is one lowering.
  Shared* shared = nullptr;
  /// For each input a number that is another one when its content may be; used with `shared`.
  std::vector<std::uint64_t> contents;
  /// Called with a stage's name ("graph after fold_batch_norm", "loops", "llvm", "asm", "graph schedule") and its text, when set.
  std::function<void(const std::string& stage, const std::string& text)> dump;
};

struct Lowered {
  std::unique_ptr<runtime::Executable> executable;
  /// Indices of the inputs whose contents were read at compile time: a change to one of them makes this executable wrong.
  std::vector<int> folded_inputs;
};

/// Compiles `graph` for CPU. `examples` holds the tensors of the recording call, one an input (contents of kActivation ones
/// are never read). A graph that records gradients, autocast or something not lowered is replayed, node by node or whole:
/// the result is always right. Throws only on a broken invariant.
Lowered lower(std::shared_ptr<const graph::Graph> graph, c10::ArrayRef<at::Tensor> examples, const Options& options);

}  // namespace dynrun::lowering
