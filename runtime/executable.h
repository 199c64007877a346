#pragma once
// What a segment's graph becomes: something that can be run again and again.

#include "graph/graph.h"

#include <ATen/core/Tensor.h>
#include <c10/util/ArrayRef.h>

#include <exception>
#include <memory>
#include <vector>

namespace dynrun::runtime {

/// Code of another language raised, after it may have written tensors from outside. What it raised that language's runtime knows.
struct ForeignError : std::exception {
  const char* what() const noexcept override { return "code of another compiler raised"; }
};

/// Runs a graph. Safe to call from several threads at once; needs no interpreter lock.
class Executable {
 public:
  virtual ~Executable() = default;

  /// `inputs`: one defined tensor an input of the graph, in its order, of the recorded type. Gives the graph's outputs in
  /// order, with eager's sizes, strides, dtype and aliasing. Tensors that the graph writes in place are written back.
  /// Throws what the failing operator throws (c10::Error and its kinds).
  virtual std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs) = 0;

  /// How many generated kernels, and how many library or dispatcher calls, one run makes.
  virtual int kernel_count() const { return 0; }
  /// True when a run is the graph's operators themselves, one by one.
  virtual bool replays_operators() const { return false; }
  virtual int extern_count() const { return 0; }
  /// True when a run that throws leaves the inputs as they were.
  virtual bool undoes() const { return false; }
  /// True when the next run is likely to look where its inputs lie and no more: it keeps none of them in a tensor of its own.
  virtual bool looks_only() const { return false; }
};

/// What a compiler keeps from one lowering of a graph to the next one, for other sizes. Nobody else looks inside.
struct LoweringState {
  virtual ~LoweringState() = default;
};

/// Replays libtorch's own operators one by one through the dispatcher, each under the mode it was recorded in:
/// the meaning of a graph by definition. Random operators draw from the generators that eager would use.
std::unique_ptr<Executable> make_replayer(std::shared_ptr<const graph::Graph> graph);

/// The same, all or nothing: where an operator raises, the inputs are as they were. Of graphs that `UndoLog` covers.
std::unique_ptr<Executable> make_undoing_replayer(std::shared_ptr<const graph::Graph> graph);

}  // namespace dynrun::runtime
