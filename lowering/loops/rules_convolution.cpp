// Convolutions of single channels (depthwise ones) on a GPU: the products of a window stand side by side in one expression, which
// fuses with what follows. They are bound by memory, and libraries take their time to choose a kernel for each.

#include "lowering/loops/convolutions.h"
#include "lowering/loops/windows.h"

#include "lowering/extern/arguments.h"

namespace dynrun::lowering {
namespace {

/// The window along each spatial dimension; a convolution along one has a window of one channel besides.
std::pair<Side, Side> sides_of(const RuleContext& c) {
  const graph::TensorType& in = c.type("input");
  const Sizes &out = c.out().sizes, &kernel = c.type("weight").sizes;
  const std::size_t last = out.size() - 1;
  const bool flat = kernel.size() == 3;
  if (in.sizes.size() != kernel.size() || out.size() != kernel.size()) throw NotCovered{};
  const auto stride = two(c.integers("stride"), {1, 1}), padding = two(c.integers("padding"), {0, 0}), dilation = two(c.integers("dilation"), {1, 1});
  const Side columns = {in.sizes[last], out[last], kernel[last], stride.second, padding.second, dilation.second};
  if (flat) return {{in.sizes[1], out[1], 1, 1, 0, 1}, columns};
  return {{in.sizes[last - 1], out[last - 1], kernel[last - 1], stride.first, padding.first, dilation.first}, columns};
}

/// The weight of each channel at one place of the window, as wide as the result.
Expr weight_at(const RuleContext& c, const Windows::Place& place) {
  const graph::TensorType& type = c.type("weight");
  const Sizes& out = c.out().sizes;
  const std::size_t last = type.sizes.size() - 1;
  Sizes strides(out.size(), 0);
  strides[1] = type.strides[0];
  std::int64_t offset = place.column * type.strides[last];
  if (type.sizes.size() == 4) offset += place.row * type.strides[last - 1];
  return cast(load_as(c.value("weight"), type.dtype, out, std::move(strides), offset), compute_type(type.dtype));
}

void depthwise(RuleContext& c) {
  if (!is_depthwise(c.program(), c.node()) || c.has("bias")) throw NotCovered{};
  const auto [rows, columns] = sides_of(c);
  Expr sum;
  Windows(c, "input", rows, columns).visit([&](const Windows::Place& place) {
    const Expr element = place.inside ? where(place.inside, place.element, number(0, place.element)) : place.element;
    const Expr weight = weight_at(c, place);
    sum = sum ? mul_add(element, weight, sum) : element * weight;
  });
  c.define(sum);
}

}  // namespace

bool is_depthwise(const Program& program, const graph::Node& node) {
  const std::string name = node.op_name();
  if (!program.for_gpu() || (name != "aten::conv1d" && name != "aten::conv2d") || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return false;
  const auto input = tensor_argument(program, node.arguments[0]), weight = tensor_argument(program, node.arguments[1]);
  if (!input || !weight || !node.arguments[6].is_constant()) return false;
  const graph::TensorType &in = program.graph.type_of(*input), &factors = program.graph.type_of(*weight), &out = program.graph.type_of(node.outputs[0]);
  if (in.unsized || out.unsized || factors.unsized || in.sizes.size() != factors.sizes.size() || in.dtype != factors.dtype || in.dtype != out.dtype) return false;
  const std::int64_t channels = in.sizes[1];
  std::int64_t window = 1;
  for (std::size_t i = 2; i < factors.sizes.size(); ++i) window *= factors.sizes[i];
  return channels > 1 && node.arguments[6].constant().toInt() == channels && factors.sizes[0] == channels && factors.sizes[1] == 1 && window <= kMostOfWindow;
}

const RuleTable& convolution_rules() {
  static const RuleTable table = {{"aten::conv1d", depthwise}, {"aten::conv2d", depthwise}};
  return table;
}

}  // namespace dynrun::lowering
