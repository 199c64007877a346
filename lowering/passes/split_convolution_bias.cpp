// split_convolution_bias: on a GPU, convolution with bias -> convolution, then an addition that fuses with what follows.
//
// libtorch adds the bias with a kernel of its own anyway. Weights become channels-last here where activations are to be.

#include "lowering/extern/arguments.h"
#include "lowering/loops/convolutions.h"
#include "lowering/passes/passes.h"

#include <ATen/Functions.h>

namespace dynrun::lowering {
namespace {

bool is_convolution(const Node& node) {
  const std::string& name = node.op.operator_name().name;
  return name == "aten::conv1d" || name == "aten::conv2d" || name == "aten::conv3d" || name == "aten::convolution" ||
         name == "aten::conv_transpose1d" || name == "aten::conv_transpose2d" || name == "aten::conv_transpose3d";
}

/// The bias along the channels of a result with so many spatial dimensions.
ValueId along_channels(Program& program, ValueId bias, std::size_t spatial) {
  TensorType type = program.graph.type_of(bias);
  type.sizes.resize(1 + spatial, 1);
  type.strides.resize(1 + spatial, 1);
  View view;
  view.root = program.root(bias);
  if (auto found = program.views.find(bias); found != program.views.end()) view.offset = found->second.offset;
  const ValueId id = program.add_value(std::move(type), "bias");
  program.views.emplace(id, view);
  return id;
}

/// The addition that takes the bias's place.
Node split(Program& program, Node& node, ValueId bias) {
  const ValueId result = node.outputs[0];
  const std::size_t spatial = program.graph.type_of(*tensor_argument(program, node.arguments[1])).sizes.size() - 2;
  const ValueId convolved = program.add_value(program.graph.type_of(result), "convolved");
  const ValueId addend = along_channels(program, bias, spatial);
  node.outputs[0] = convolved;
  node.arguments[2] = Argument::constant({});
  return {c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor"),
          {Argument::reference(convolved), Argument::reference(addend), Argument::constant(std::int64_t{1})},
          {result},
          {-1},
          node.mode,
          node.source};
}

void lay_out_weight(Program& program, Node& node) {
  auto weight = tensor_argument(program, node.arguments[1]);
  if (!weight || program.graph.type_of(*weight).sizes.size() != 4 || !program.known(*weight)) return;
  program.mark_folded(*weight);
  const at::Tensor known = *program.known(*weight);
  // Filters of single channels are read by kernels whose neighbouring threads have neighbouring channels.
  at::Tensor laid = is_depthwise(program, node) ? known.permute({2, 3, 1, 0}).contiguous().permute({3, 2, 0, 1}) : known.contiguous(at::MemoryFormat::ChannelsLast);
  if (laid.storage().use_count() > 1) laid = laid.clone(at::MemoryFormat::Preserve);
  const std::string name = program.graph.values[static_cast<std::size_t>(*weight)].name;
  node.arguments[1] = Argument::reference(program.add_constant(std::move(laid), name + "_channels_last"));
}

}  // namespace

void split_convolution_bias(Program& program) {
  if (!program.for_gpu()) return;
  std::vector<Node> nodes;
  for (std::size_t index = 0; index < program.graph.nodes.size(); ++index) {
    const bool here = !program.touches_unsized(static_cast<std::int32_t>(index));
    Node node = std::move(program.graph.nodes[index]);
    std::optional<Node> sum;
    if (here && is_convolution(node) && node.outputs.size() == 1 && node.outputs[0] != graph::kNoValue) {
      const bool as_it_is = program.layout == GpuLayout::kAsIs || (program.layout == GpuLayout::kBehindFirst && reads_few_channels(program.graph, node));
      if (!as_it_is && node.op.operator_name().name == "aten::conv2d") lay_out_weight(program, node);
      auto weight = tensor_argument(program, node.arguments[1]);
      auto bias = optional_tensor(program, node.arguments[2]);
      if (weight && bias && *bias != graph::kNoValue && !program.graph.type_of(node.outputs[0]).unsized) sum = split(program, node, *bias);
    }
    nodes.push_back(std::move(node));
    if (sum) nodes.push_back(std::move(*sum));
  }
  program.graph.nodes = std::move(nodes);
}

}  // namespace dynrun::lowering
