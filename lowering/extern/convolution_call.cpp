#include "lowering/extern/convolution_call.h"

#include "lowering/extern/candidates.h"
#include "lowering/extern/convolution_parts.h"

#include <ATen/Functions.h>
#include <c10/util/strides.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dynrun::lowering {
namespace {

/// "same" and "valid" as numbers; uneven "same" padding has none.
std::optional<std::vector<std::int64_t>> named_padding(const std::string& name, at::IntArrayRef weight_sizes,
                                                       const std::vector<std::int64_t>& dilation) {
  std::vector<std::int64_t> padding(2, 0);
  if (name == "valid") return padding;
  if (name != "same") return std::nullopt;
  for (std::size_t axis = 0; axis < 2; ++axis) {
    const std::int64_t total = dilation[axis] * (weight_sizes[axis + 2] - 1);
    if (total % 2 != 0) return std::nullopt;
    padding[axis] = total / 2;
  }
  return padding;
}

bool read_arguments(const Program& program, const Node& node, ConvolutionCall& call) {
  const std::string name = node.op_name();
  const bool general = name == "aten::convolution";
  if (!general && name != "aten::conv2d" && name != "aten::conv2d.padding") return false;
  auto input = tensor_argument(program, node.arguments[0]), weight = tensor_argument(program, node.arguments[1]);
  auto bias = optional_tensor(program, node.arguments[2]);
  if (!input || !weight || !bias || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return false;
  call.input = *input, call.weight = *weight, call.bias = *bias, call.output = node.outputs[0];
  if (program.graph.type_of(*weight).sizes.size() != 4) return false;
  auto stride = ints_argument(node.arguments[3], 2), dilation = ints_argument(node.arguments[5], 2);
  auto groups = int_argument(node.arguments[general ? 8 : 6]);
  if (!stride || !dilation || !groups) return false;
  if (general && bool_argument(node.arguments[6]) != std::optional<bool>(false)) return false;
  auto padding = name == "aten::conv2d.padding" ? named_padding(text_argument(node.arguments[4]).value_or(""),
                                                                program.graph.type_of(*weight).sizes, *dilation)
                                                : ints_argument(node.arguments[4], 2);
  if (!padding) return false;
  call.geometry = {*stride, *padding, *dilation, *groups};
  return true;
}

}  // namespace

std::optional<ConvolutionCall> read_convolution(const Program& program, const Node& node) {
  ConvolutionCall call;
  if (!read_arguments(program, node, call)) return std::nullopt;
  const TensorType& input = program.graph.type_of(call.input);
  const TensorType& output = program.graph.type_of(call.output);
  if (input.sizes.size() != 4 || input.element_count() == 0 || output.element_count() == 0) return std::nullopt;
  for (ValueId id : {call.input, call.weight, call.output, call.bias}) {
    if (id != graph::kNoValue && !is_plain_float(program, id)) return std::nullopt;
  }
  return call;
}

std::optional<ConvolutionCall> match_convolution(const Program& program, const Node& node) {
  auto call = read_convolution(program, node);
  if (!call || !program.known(call->weight)) return std::nullopt;
  if (call->bias != graph::kNoValue && !program.known(call->bias)) return std::nullopt;
  return call;
}

namespace {

/// Packed oneDNN on `input` giving `output` against libtorch on `own_input` giving `own_output`.
bool compare(const Program& program, const ConvolutionCall& call, const TensorType& input, const TensorType& output,
             const std::vector<std::int64_t>& own_input, const std::vector<std::int64_t>& own_output) {
  const TensorType& weight_type = program.graph.type_of(call.weight);
  const auto& g = call.geometry;
  const std::int64_t parts = convolution_parts(weight_type.sizes, g.groups);
  auto in = [&](const std::vector<std::int64_t>& strides) { return layout_text(input.sizes, strides); };
  auto out = [&](const std::vector<std::int64_t>& strides) { return layout_text(output.sizes, strides); };
  const Question question{fmt::format("convolution ({} -> {}; {} -> {}) weight {} stride {} padding {} dilation {} groups {} bias {}{}", in(input.strides),
                                      out(output.strides), in(own_input), out(own_output), fmt::join(weight_type.sizes, "x"), fmt::join(g.stride, "x"),
                                      fmt::join(g.padding, "x"), fmt::join(g.dilation, "x"), g.groups, call.bias != graph::kNoValue, parts > 1 ? fmt::format(" in {} parts", parts) : ""),
                          input.sizes};
  // Content does not matter to the time (but for denormals): ones are quick to make.
  at::Tensor own_x, x, weight;
  std::vector<at::Tensor> packed;
  std::optional<at::Tensor> bias;
  TensorType own_type = output;
  own_type.strides = own_output;
  auto prepare = [&] {
    if (x.defined()) return;
    own_x = at::empty_strided(input.sizes, own_input).fill_(1);
    x = at::empty_strided(input.sizes, input.strides).fill_(1);
    weight = *program.known(call.weight);
    if (call.bias != graph::kNoValue) bias = at::ones({weight_type.sizes[0]});
  };
  auto own = [&] {
    prepare();
    conform(at::conv2d(own_x, weight, bias, g.stride, g.padding, g.dilation, g.groups), own_type);
  };
  auto library = [&] {
    prepare();
    for (std::int64_t part = packed.size(); part < parts; ++part) {
      packed.push_back(onednn::pack_convolution_weight(channel_part(weight, part, parts), g, channel_part_sizes(input.sizes, parts)));
    }
    conform(convolve(x, packed, bias, g, {}), output);
  };
  return fastest(question, {{"packed", library}, {"libtorch", own}}) == 0;
}

}  // namespace

bool prefers_channels_last(const Program& program, const ConvolutionCall& call) {
  if (!onednn::available()) return false;
  TensorType input = program.graph.type_of(call.input), output = program.graph.type_of(call.output);
  auto contiguous = [](const std::vector<std::int64_t>& sizes) { return c10::contiguous_strides(sizes); };
  const auto own_input = contiguous(input.sizes), own_output = contiguous(output.sizes);
  input.strides = channels_last_strides(input.sizes), output.strides = channels_last_strides(output.sizes);
  return compare(program, call, input, output, {own_input.begin(), own_input.end()}, {own_output.begin(), own_output.end()});
}

bool packed_is_faster(const Program& program, const ConvolutionCall& call, const TensorType& output) {
  const TensorType& input = program.graph.type_of(call.input);
  if (is_channels_last(input) && is_channels_last(output)) return prefers_channels_last(program, call);
  return onednn::available() && compare(program, call, input, output, input.strides, output.strides);
}

}  // namespace dynrun::lowering
