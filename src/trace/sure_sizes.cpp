#include "trace/sure_sizes.h"

#include "graph/operators.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

namespace dynrun::trace {
namespace {

using graph::Graph;
using graph::Node;
using graph::TensorType;
using Names = std::unordered_set<std::string_view>;

/// Their sizes are whatever those of their arguments are, or what does not fit was found while sizes were worked out.
const Names& any_sizes() {
  static const Names names = {
      "abs", "add", "addcdiv", "addcmul", "addmm", "all", "amax", "amin", "any", "arange", "argmax", "argmin", "baddbmm", "bmm", "cat", "clamp", "clamp_min", "clamp_max", "clone", "contiguous", "cos", "cumsum", "detach", "diff", "div", "dropout", "embedding", "empty", "eq", "erf", "exp", "expm1", "flatten", "flip",
      "full", "full_like", "ge", "gelu", "gt", "hardsigmoid", "hardswish", "hardtanh", "index", "le", "leaky_relu", "linear", "log", "log1p", "logical_and", "logical_not", "logical_or", "log_softmax", "lt", "masked_fill", "matmul", "max", "maximum", "mean", "min",
      "minimum", "mish", "mm", "mul", "ne", "neg", "ones", "ones_like", "pow", "reciprocal", "relu", "relu6", "reshape", "rsqrt", "rsub", "sigmoid", "sign", "silu", "sin", "softmax", "sqrt", "square", "stack",
      "sub", "sum", "tanh", "to", "tril", "triu", "type_as", "where", "zeros", "zeros_like", "add_", "mul_", "sub_", "div_", "relu_", "relu6_", "silu_", "hardtanh_", "hardswish_", "hardsigmoid_", "sigmoid_", "tanh_", "dropout_",
      "avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d", "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"};
  return names;
}

/// Their second dimension has to fit to a weight, or to be a multiple.
const Names& of_channels() {
  static const Names names = {"conv1d", "conv2d", "conv3d", "convolution", "batch_norm", "group_norm", "instance_norm"};
  return names;
}

const TensorType* first_type(const Graph& graph, const Node& node) {
  if (node.arguments.empty() || !node.arguments[0].is_value() || !graph.values[static_cast<std::size_t>(node.arguments[0].value())].is_tensor()) return nullptr;
  return &graph.type_of(node.arguments[0].value());
}

bool same_channels(const TensorType& a, const TensorType& b) { return a.sizes.size() >= 2 && b.sizes.size() == a.sizes.size() && a.sizes[1] == b.sizes[1]; }

bool same_end(const TensorType& a, const TensorType& b, std::size_t count) {
  return a.sizes.size() >= count && b.sizes.size() >= count && std::equal(a.sizes.end() - static_cast<std::ptrdiff_t>(count), a.sizes.end(), b.sizes.end() - static_cast<std::ptrdiff_t>(count));
}

/// The dimensions that layer_norm and rms_norm take together are those of the recording.
bool same_normalised(const Node& node, const TensorType& a, const TensorType& b) {
  const graph::Argument& shape = node.arguments[1];
  if (shape.is_list()) return same_end(a, b, shape.items().size());
  return shape.is_value() ? false : same_end(a, b, shape.constant().isIntList() ? shape.constant().toIntVector().size() : 1);
}

/// A mask is repeated over what attention is computed of, or has its sizes.
bool fits_mask(const Graph& now, const Node& node) {
  for (std::size_t i = 0; i < 3; i++) {
    if (!node.arguments[i].is_value() || now.type_of(node.arguments[i].value()).sizes.size() != 4) return false;
  }
  const std::vector<std::int64_t>& query = now.type_of(node.arguments[0].value()).sizes;
  const std::vector<std::int64_t> scores = {query[0], query[1], query[2], now.type_of(node.arguments[1].value()).sizes[2]};
  if (!node.arguments[3].is_value()) return true;
  const std::vector<std::int64_t>& mask = now.type_of(node.arguments[3].value()).sizes;
  if (mask.size() > scores.size()) return false;
  for (std::size_t i = 0; i < mask.size(); i++) {
    if (mask[i] != 1 && mask[i] != scores[scores.size() - mask.size() + i]) return false;
  }
  return true;
}

/// `gather` takes no more than there is in each other dimension.
bool fits_index(const Graph& now, const Node& node) {
  if (!node.arguments[0].is_value() || !node.arguments[1].is_constant() || !node.arguments[2].is_value()) return false;
  const std::vector<std::int64_t>& input = now.type_of(node.arguments[0].value()).sizes;
  const std::vector<std::int64_t>& index = now.type_of(node.arguments[2].value()).sizes;
  const auto rank = static_cast<std::int64_t>(input.size());
  const std::int64_t dimension = (node.arguments[1].constant().toInt() + rank) % std::max<std::int64_t>(rank, 1);
  for (std::int64_t i = 0; i < rank; i++) {
    const auto at = static_cast<std::size_t>(i);
    if (index.size() != input.size() || (i != dimension && index[at] > input[at])) return false;
  }
  return true;
}

bool is_sure(const Node& node, const Graph& recorded, const Graph& now) {
  const std::string_view name = graph::base_name(node.op);
  if (node.op.operator_name().name.rfind("aten::", 0) != 0) return false;
  if (graph::is_view(name) || any_sizes().count(name) != 0) return true;
  if (name == "gather") return fits_index(now, node);
  if (name == "scaled_dot_product_attention") return fits_mask(now, node);
  const TensorType *then = first_type(recorded, node), *here = first_type(now, node);
  if (then == nullptr || here == nullptr) return false;
  if (of_channels().count(name) != 0) return same_channels(*then, *here);
  return (name == "layer_norm" || name == "rms_norm") && same_normalised(node, *then, *here);
}

}  // namespace

bool sizes_are_sure(const Graph& recorded, const Graph& now) {
  for (const graph::Value& value : now.values) {
    if (value.is_tensor() && std::any_of(value.tensor().sizes.begin(), value.tensor().sizes.end(), [](std::int64_t size) { return size <= 0; })) return false;
  }
  return std::all_of(now.nodes.begin(), now.nodes.end(), [&](const Node& node) { return is_sure(node, recorded, now); });
}

}  // namespace dynrun::trace
