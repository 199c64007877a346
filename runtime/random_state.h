#pragma once
// Random streams: what a run that does not count must leave as it found it.

#include "graph/graph.h"

#include <ATen/core/Generator.h>

namespace dynrun::runtime {

/// The devices whose default generators the operator may draw from: those of the tensors that it takes and gives. Empty for one that
/// draws nothing.
std::vector<c10::Device> drawn_from(const graph::Graph& graph, const graph::Node& node);
/// The same for all nodes, each device once.
std::vector<c10::Device> drawn_from(const graph::Graph& graph);

/// States of default generators as they are now, to be put back. Remembers nothing where no device is given.
class RandomState {
 public:
  explicit RandomState(const std::vector<c10::Device>& devices);
  void restore() const;

 private:
  std::vector<std::pair<at::Generator, at::Tensor>> saved_;
};

}  // namespace dynrun::runtime
