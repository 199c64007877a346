#pragma once
// The weights that a segment casts inside of a region of autocast that had begun before it.
//
// Torch keeps such casts until the region ends. Compiled code has them of its own; it runs where no weight can have been written since the
// region began, and torch is given the casts that eager would have left behind, so that what comes later in the region finds them.

#include "graph/graph.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace dynrun::trace {

class WeightCasts {
 public:
  WeightCasts() = default;
  /// Those of a graph's nodes `dynrun::cached_cast`.
  explicit WeightCasts(const graph::Graph& graph);

  enum class State : std::uint8_t {
    kUnknown,  // torch may have kept casts of before a weight was written: only operators that ask it will do
    kLearning, // the casts are not known yet; when the operators have run, `learn` takes torch's if they are the weights'
    kFresh,    // as compiled code has them; torch has them too
  };
  State look(const std::vector<at::Tensor>& inputs);
  void learn(const std::vector<at::Tensor>& inputs);

 private:
  struct Weight {
    const void *tensor, *storage, *data;
    std::uint32_t version;
    std::uint64_t alias_epoch;
    bool operator==(const Weight&) const = default;
  };
  void see(const std::vector<at::Tensor>& inputs, std::vector<Weight> now);
  bool give(const std::vector<at::Tensor>& inputs) const;
  const at::Tensor& weight(const std::vector<at::Tensor>& inputs, std::size_t i) const { return inputs[static_cast<std::size_t>(inputs_[i])]; }

  std::vector<int> inputs_;  // of the segment
  std::vector<c10::ScalarType> dtypes_;
  std::vector<Weight> seen_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> pins_;  // no other storage gets the address of one that was seen
  std::vector<at::Tensor> casts_;  // of the weights as they were seen; empty: not known
  std::uint64_t region_ = 0;       // where they were seen last
  bool fresh_ = false, compared_ = false;
};

/// The casts that torch keeps of weights behind a segment, in a region that began in it.
struct CastsLeft {
  struct Cast {
    std::size_t input, output;  // of the segment's graph
  };
  bool clears = false;  // torch forgot all that it had kept, before
  std::vector<Cast> casts;

  void leave(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& outputs) const;
};

}  // namespace dynrun::trace
