// patches_as_product: on a GPU, the convolution that cuts an image in patches (kernel = stride) -> a copy patch by patch, and a linear.
//
// Which kernel a library picks for so few channels, and whether it rounds to TF32, depends on layout and batch; a product is the
// same everywhere, and as fast.

#include "graph/text.h"
#include "lowering/extern/arguments.h"
#include "lowering/loops/expression.h"
#include "lowering/passes/passes.h"

namespace dynrun::lowering {
namespace {

constexpr std::int64_t kFewChannels = 4;  // an image's

struct Patches {
  ValueId input = graph::kNoValue, weight = graph::kNoValue, bias = graph::kNoValue;
  Sizes sizes;  // of the copy: items, rows and columns of patches, channels, rows and columns of one
  Sizes strides;
};

bool is_list_of(const Argument& argument, std::int64_t first, std::int64_t second) {
  const auto list = argument.is_constant() && argument.constant().isIntList() ? argument.constant().toIntVector() : std::vector<std::int64_t>{};
  return !list.empty() && list.front() == first && list.back() == second;
}

std::optional<Patches> match_patches(const Program& program, const Node& node) {
  if (node.op_name() != "aten::conv2d" || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return std::nullopt;
  const auto input = tensor_argument(program, node.arguments[0]), weight = tensor_argument(program, node.arguments[1]);
  const auto bias = optional_tensor(program, node.arguments[2]);
  if (!input || !weight || !bias || !node.arguments[6].is_constant() || node.arguments[6].constant().toInt() != 1) return std::nullopt;
  const TensorType &in = program.graph.type_of(*input), &factors = program.graph.type_of(*weight), &out = program.graph.type_of(node.outputs[0]);
  if (in.unsized || out.unsized || in.sizes.size() != 4 || !factors.is_contiguous() || in.dtype != factors.dtype || out.dtype != in.dtype || !c10::isFloatingType(in.dtype)) return std::nullopt;
  const std::int64_t rows = factors.sizes[2], columns = factors.sizes[3];
  const bool cut = is_list_of(node.arguments[3], rows, columns) && is_list_of(node.arguments[4], 0, 0) && is_list_of(node.arguments[5], 1, 1);
  if (!cut || in.sizes[1] > kFewChannels || rows * columns == 1 || in.sizes[2] % rows != 0 || in.sizes[3] % columns != 0) return std::nullopt;
  Patches patches{*input, *weight, *bias, {in.sizes[0], in.sizes[2] / rows, in.sizes[3] / columns, in.sizes[1], rows, columns}, {}};
  patches.strides = {in.strides[0], in.strides[2] * rows, in.strides[3] * columns, in.strides[1], in.strides[2], in.strides[3]};
  return patches;
}

/// A value's memory with other sizes and strides.
ValueId view_of(Program& program, ValueId whole, Sizes sizes, Sizes strides) {
  TensorType type = program.graph.type_of(whole);
  type.sizes = std::move(sizes);
  type.strides = std::move(strides);
  View view{program.root(whole), 0, {}};
  if (auto found = program.views.find(whole); found != program.views.end()) view.offset = found->second.offset;
  const ValueId id = program.add_value(std::move(type), "patches");
  program.views.emplace(id, view);
  return id;
}

ValueId contiguous_value(Program& program, TensorType type, Sizes sizes) {
  type.strides = graph::contiguous_strides(sizes);
  type.sizes = std::move(sizes);
  return program.add_value(std::move(type), "patches");
}

Node clone_of(ValueId from, ValueId to, const Node& like) {
  return {c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", ""), {Argument::reference(from), Argument::constant({})}, {to}, {-1}, like.mode, like.source};
}

/// The copy, the product, and its result in the convolution's layout.
void replace(Program& program, const Node& node, const Patches& patches, std::vector<Node>& nodes) {
  const TensorType out = program.graph.type_of(node.outputs[0]), in = program.graph.type_of(patches.input), factors = program.graph.type_of(patches.weight);
  const Sizes& sizes = patches.sizes;
  const std::int64_t count = sizes[0] * sizes[1] * sizes[2], elements = sizes[3] * sizes[4] * sizes[5], features = factors.sizes[0];
  const ValueId copied = contiguous_value(program, in, sizes);
  nodes.push_back(clone_of(view_of(program, patches.input, sizes, patches.strides), copied, node));
  const ValueId product = contiguous_value(program, out, {count, features});
  Argument bias = patches.bias == graph::kNoValue ? Argument::constant({}) : Argument::reference(patches.bias);
  nodes.push_back({c10::Dispatcher::singleton().findSchemaOrThrow("aten::linear", ""),
                   {Argument::reference(view_of(program, copied, {count, elements}, {elements, 1})),
                    Argument::reference(view_of(program, patches.weight, {features, elements}, {elements, 1})), std::move(bias)},
                   {product},
                   {-1},
                   node.mode,
                   node.source});
  const Sizes strides = {sizes[1] * sizes[2] * features, 1, sizes[2] * features, features};
  nodes.push_back(clone_of(view_of(program, product, out.sizes, strides), node.outputs[0], node));
}

}  // namespace

void patches_as_product(Program& program) {
  if (!program.for_gpu()) return;
  std::vector<Node> nodes;
  for (std::size_t index = 0; index < program.graph.nodes.size(); ++index) {
    const Node node = program.graph.nodes[index];
    const bool there = !program.touches_unsized(static_cast<std::int32_t>(index));
    if (const auto patches = there ? match_patches(program, node) : std::nullopt) {
      replace(program, node, *patches, nodes);
    } else {
      nodes.push_back(node);
    }
  }
  program.graph.nodes = std::move(nodes);
}

}  // namespace dynrun::lowering
