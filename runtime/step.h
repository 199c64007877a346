#pragma once
// What a compiled graph is made of: an ordered list of steps over numbered tensor slots.

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <vector>

namespace dynrun::runtime {

using SlotId = std::int32_t;

/// The tensors of one run. A slot is read only after the step that writes it, and may be undefined after its last reader.
class Slots {
 public:
  explicit Slots(std::size_t count) : tensors_(count) {}
  at::Tensor& operator[](SlotId id) { return tensors_[static_cast<std::size_t>(id)]; }
  const at::Tensor& operator[](SlotId id) const { return tensors_[static_cast<std::size_t>(id)]; }
  std::size_t size() const { return tensors_.size(); }

  /// The storage that the memory plan reuses during a run: no step may keep a tensor on it beyond the plan's lifetimes.
  const c10::StorageImpl* arena() const { return arena_; }
  void set_arena(const c10::StorageImpl* arena) { arena_ = arena; }

 private:
  std::vector<at::Tensor> tensors_;
  const c10::StorageImpl* arena_ = nullptr;
};

enum class StepKind : std::uint8_t {
  kKernel,    // generated code
  kLibrary,   // a library kernel chosen by lowering/extern
  kDispatch,  // libtorch's own operator, called through the dispatcher
};

/// One action of a run. Holds no state that a run changes: several threads may run the same step at once, each with slots
/// of its own. Runs with autograd's dispatch keys excluded (no gradient, no version counter, no view tracking).
class Step {
 public:
  virtual ~Step() = default;
  virtual void run(Slots& slots) const = 0;
  virtual StepKind kind() const = 0;
  /// Whether no result shares memory with an argument, whatever the step is given.
  virtual bool makes_own_memory() const { return kind() != StepKind::kDispatch; }
  /// One line for dumps, such as "mkldnn convolution + relu (%x, folded weight) -> %y".
  virtual std::string describe() const = 0;
};

}  // namespace dynrun::runtime
