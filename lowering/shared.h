#pragma once
// What lowerings of one graph at several sizes share: kernels that take the sizes as arguments, and what was made of weights.

#include "lowering/loops/family.h"

#include "graph/graph.h"
#include "runtime/executable.h"

#include <ATen/core/Tensor.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

namespace dynrun::lowering {

class Shared final : public runtime::LoweringState {
 public:
  /// The contents without those of inputs that keep changing (a cache that grows): these are 0, not worth being read.
  std::vector<std::uint64_t> steady(std::vector<std::uint64_t> contents);
  /// `open`: the graph with its numbers open, of which those that are lowered are cases; null where there are none.
  explicit Shared(std::shared_ptr<const graph::Graph> open = nullptr) : open_(std::move(open)) {}
  /// A lowering begins. `contents`: a number for each input that is another one when
  /// its content may be, 0 for one whose content is not read; `examples`: the inputs. What was made of other contents is forgotten.
  void start(std::vector<std::uint64_t> contents, c10::ArrayRef<at::Tensor> examples, const graph::Graph& graph);
  /// The tensor that `make` gives for a value and a form, made once where the value came with the graph and nothing that its node takes
  /// hangs on a number that is open. It may depend on nothing else but the contents of inputs.
  at::Tensor constant(graph::ValueId value, const std::string& form, const std::function<at::Tensor()>& make);
  /// The same if it was made; else undefined.
  at::Tensor known_constant(graph::ValueId value, const std::string& form) const;
  KernelFamilies& kernels() { return kernels_; }

 private:
  std::vector<std::uint64_t> contents_;
  std::vector<std::uint64_t> seen_;  // contents when `steady` was last asked
  std::vector<int> changes_;         // of each of them
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> storages_;  // of what was read: no other one comes to lie at their addresses
  std::shared_ptr<const graph::Graph> open_;
  std::set<graph::ValueId> varying_;  // results whose weights follow from open numbers too
  std::size_t values_ = 0;
  std::map<std::pair<graph::ValueId, std::string>, at::Tensor> constants_;
  KernelFamilies kernels_;
};

}  // namespace dynrun::lowering
