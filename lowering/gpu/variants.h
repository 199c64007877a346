#pragma once
// What may be done in two ways on a GPU, and which is faster there.

#include "lowering/lower.h"
#include "lowering/program.h"

namespace dynrun::lowering::gpu {

/// Products of oddly many features: by one call; by two, whose results are copied together; by a call for the rows of each alignment.
enum class OddLinear : std::uint8_t { kWhole, kTwoParts, kRowsApart };

struct Variant {
  GpuLayout layout = GpuLayout::kAsIs;
  OddLinear odd_linear = OddLinear::kWhole;
};

/// Compiles the graph in the ways it has, one after the other, and keeps the one whose runs take the least time; what was found is kept on
/// disk. `compile` gives no executable for a variant that changes nothing. Under `options.check` every variant is compiled and checked.
Lowered compile_fastest(const graph::Graph& graph, int device, c10::ArrayRef<at::Tensor> examples, const Options& options, const std::function<Lowered(Variant)>& compile);

}  // namespace dynrun::lowering::gpu
