#pragma once
// The passes over a Program, in the order in which `lower` runs them; each is verified in debug builds and dumped by name.

#include "lowering/program.h"

namespace dynrun::lowering {

/// The graph with `tensor[i]`, where i is computed by each replay, as copies; null where a copy would not do. Comes before a
/// graph becomes a Program.
std::shared_ptr<const graph::Graph> copy_moving_views(std::shared_ptr<const graph::Graph> graph);

/// Reads a recorded graph: views become entries of Program::views, in-place operators become functional ones where the tensor
/// they write is made in the graph and its whole buffer is written. Other writers stay, as `Program::writes`.
Program functionalise(const graph::Graph& graph, c10::ArrayRef<at::Tensor> examples, const Options& options);

/// Makes a GPU's convolutions of images in patches products.
void patches_as_product(Program& program);

/// Gives a GPU's convolutions their bias in an addition behind them, and the layout of weights that Program::layout asks for.
void split_convolution_bias(Program& program);

/// Cuts linears of oddly many features in two, of which the first is as the library likes it. False where there is none such.
bool align_linear(Program& program);

/// Removes nodes without effect whose results nobody reads.
void remove_dead_nodes(Program& program);

/// Runs, once, the pure nodes that read nothing but parameters and constants. Large results are left alone.
void fold_constants(Program& program);

}  // namespace dynrun::lowering
