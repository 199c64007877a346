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

/// What a run of compiled code does, for people.
struct Picture {
  struct Step {
    std::string kind;                    // "kernel", "library" or "dispatch"
    std::string name;                    // "kernel 0", as in the text of the loops; what a library step says of itself
    std::vector<std::string> operators;  // that it stands for
  };
  struct Buffer {
    std::string content;  // "%add: float32[2, 3]"
    std::int64_t bytes = 0;
    std::int64_t offset = -1;          // in the arena; -1: memory of its own, handed out
    std::int32_t first = 0, last = 0;  // the steps from which and up to which it holds something that is read
  };
  std::vector<Step> steps;
  std::vector<Buffer> buffers;
  std::int64_t arena_bytes = 0;
};

/// Tests without a GPU: what would be done for one is done with tensors and kernels of the CPU. How activations lie then.
enum class GpuTrial : std::uint8_t { kNone, kContiguous, kChannelsLast, kBehindFirst };

struct Options {
  /// Fold and prepack inputs of kind kParameter. The caller then guards each folded input's identity, data and version.
  bool fold_parameters = true;
  /// What lowerings of one graph at several sizes share; null where there is one lowering.
  Shared* shared = nullptr;
  /// With `shared`: quick rather than the best. Kernels that measuring would choose among are taken as they were at other sizes.
  bool guess = false;
  /// For each input a number that is another one when its content may be; used with `shared`.
  std::vector<std::uint64_t> contents;
  /// Called with a stage's name ("graph after fold_batch_norm", "loops", "llvm", "asm", "graph schedule") and its text, when set.
  std::function<void(const std::string& stage, const std::string& text)> dump;
  /// Whether `dump` is to get "ptx": what the kernels would be on a GPU.
  bool wants_ptx = false;
  GpuTrial gpu_trial = GpuTrial::kNone;
  /// Called with each way of compiling a graph of which measuring would choose one, when set: the runs leave no trace.
  std::function<void(runtime::Executable& executable, const std::string& variant)> check;
  /// Called with the picture of what was made, when set.
  std::function<void(Picture picture)> draw;
};

struct Lowered {
  std::unique_ptr<runtime::Executable> executable;
  /// Indices of the inputs whose contents were read at compile time: a change to one of them makes this executable wrong.
  std::vector<int> folded_inputs;
  /// Whether runs on the examples would leave no trace.
  bool repeatable = false;
  /// Whether anything was left unmeasured that another lowering may measure.
  bool guessed = false;
};

/// Compiles `graph` for the device of its tensors. `examples` holds the tensors of the recording call, one an input (contents of kActivation ones
/// are never read). A graph that records gradients or something not lowered is replayed, node by node or whole:
/// the result is always right. Throws only on a broken invariant.
Lowered lower(std::shared_ptr<const graph::Graph> graph, c10::ArrayRef<at::Tensor> examples, const Options& options);

}  // namespace dynrun::lowering
