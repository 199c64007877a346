// fold_batch_norm: convolution, then batch norm on running statistics -> one convolution.
//
// With scale = gamma / sqrt(variance + epsilon): weight' = weight * scale (per output channel),
// bias' = (bias - mean) * scale + beta. The channel's numbers are computed in double.

#include "lowering/extern/arguments.h"
#include "lowering/extern/candidates.h"
#include "lowering/extern/convolution_call.h"
#include "lowering/extern/library_kernel.h"

#include <ATen/Functions.h>

#include <array>

namespace dynrun::lowering {
namespace {

struct BatchNorm {
  ValueId input = graph::kNoValue;
  std::array<ValueId, 4> parameters;  // weight, bias, mean, variance; the first two may be absent
  double epsilon = 0;
};

std::optional<BatchNorm> match_batch_norm(const Program& program, const Node& node) {
  if (node.op_name() != "aten::batch_norm" || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue)
    return std::nullopt;
  if (bool_argument(node.arguments[5]) != std::optional<bool>(false)) return std::nullopt;
  BatchNorm norm;
  auto input = tensor_argument(program, node.arguments[0]);
  auto epsilon = number_argument(node.arguments[7]);
  if (!input || !epsilon) return std::nullopt;
  norm.input = *input, norm.epsilon = *epsilon;
  for (std::size_t index = 0; index < 4; ++index) {
    auto id = optional_tensor(program, node.arguments[index + 1]);
    const bool may_lack = index < 2;
    if (!id || (*id == graph::kNoValue && !may_lack)) return std::nullopt;
    if (*id != graph::kNoValue && (!program.known(*id) || !is_plain_float(program, *id))) return std::nullopt;
    norm.parameters[index] = *id;
  }
  return norm;
}

/// The content of a parameter in double; `otherwise` in every channel when it is absent, on that device.
at::Tensor read(Program& program, ValueId id, std::int64_t channels, double otherwise, c10::Device device) {
  if (id == graph::kNoValue) return at::full({channels}, otherwise, at::TensorOptions(at::kDouble).device(device));
  program.mark_folded(id);
  return program.known(id)->to(at::kDouble);
}

void fold(Program& program, std::int32_t convolution_index, const ConvolutionCall& call, const BatchNorm& norm,
          ValueId result) {
  const std::int64_t channels = program.graph.type_of(call.weight).sizes[0];
  const c10::Device device = program.known(norm.parameters[2])->device();
  auto channel_numbers = [&](ValueId id, double otherwise) { return read(program, id, channels, otherwise, device); };
  const at::Tensor mean = channel_numbers(norm.parameters[2], 0), variance = channel_numbers(norm.parameters[3], 1);
  const at::Tensor scale = channel_numbers(norm.parameters[0], 1) / at::sqrt(variance + norm.epsilon);
  const at::Tensor bias = (channel_numbers(call.bias, 0) - mean) * scale + channel_numbers(norm.parameters[1], 0);
  program.mark_folded(call.weight);
  // Rounded once: an error in a channel's scale would add up over all of its products.
  const at::Tensor weight = (program.known(call.weight)->contiguous() * scale.view({-1, 1, 1, 1})).to(at::kFloat);
  const std::string name = program.graph.values[static_cast<std::size_t>(result)].name;
  const ValueId new_weight = program.add_constant(weight, name + "_folded_weight");
  const ValueId new_bias = program.add_constant(bias.to(at::kFloat), name + "_folded_bias");
  Node& node = program.graph.nodes[static_cast<std::size_t>(convolution_index)];
  node.arguments[1] = Argument::reference(new_weight);
  node.arguments[call.bias_argument] = Argument::reference(new_bias);
  node.outputs[0] = result;
}

}  // namespace

void fold_batch_norm(Program& program) {
  const OneThread one_thread;
  const Uses uses(program);
  std::vector<bool> removed(program.graph.nodes.size(), false);
  for (std::size_t index = 0; index < program.graph.nodes.size(); ++index) {
    auto norm = match_batch_norm(program, program.graph.nodes[index]);
    if (!norm) continue;
    const std::int32_t producer = uses.producer(norm->input);
    const auto place = static_cast<std::int32_t>(index);
    if (producer < 0 || removed[static_cast<std::size_t>(producer)] || !uses.only_reader(norm->input, place) ||
        program.has_effect(place))
      continue;
    const Node& node = program.graph.nodes[static_cast<std::size_t>(producer)];
    auto call = match_convolution(program, node);
    if (!call || program.has_effect(producer) || node.mode.autocast) continue;
    fold(program, producer, *call, *norm, program.graph.nodes[index].outputs[0]);
    removed[index] = true;
  }
  std::vector<Node> kept;
  for (std::size_t index = 0; index < program.graph.nodes.size(); ++index) {
    if (!removed[index]) kept.push_back(std::move(program.graph.nodes[index]));
  }
  program.graph.nodes = std::move(kept);
}

}  // namespace dynrun::lowering
