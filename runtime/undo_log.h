#pragma once
// What operators write to memory from outside, so that it can be put back where a later one raises.

#include "graph/graph.h"

#include <ATen/core/stack.h>
#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <optional>
#include <unordered_set>
#include <vector>

namespace dynrun::runtime {

class UndoLog {
 public:
  /// Only what lies in the storages of `inputs` is kept: all else was made on the way.
  explicit UndoLog(c10::ArrayRef<at::Tensor> inputs);

  /// Whether all that the operators of a graph change is in memory: neither what autograd knows of a tensor, nor its sizes.
  static bool covers(const graph::Graph& graph);

  /// Keeps what `node` is about to write. `stack`: its arguments.
  void before(const graph::Node& node, const torch::jit::Stack& stack);
  /// Puts everything back, the counts of versions too.
  void undo();

 private:
  struct Written {
    at::Tensor tensor, content;
    std::optional<std::uint32_t> version;
  };
  void keep(const at::Tensor& tensor);

  std::unordered_set<const c10::StorageImpl*> outside_;
  std::vector<Written> written_;  // in order
};

}  // namespace dynrun::runtime
