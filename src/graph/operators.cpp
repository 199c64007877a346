#include "graph/operators.h"

#include "graph/visit.h"

#include <algorithm>
#include <array>
#include <unordered_set>

namespace dynrun::graph {
namespace {

/// By the data they index with, by its domain, or because an algorithm does not converge.
bool depends_on_data(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {
      "embedding", "embedding_bag", "_embedding_bag", "index", "gather", "take", "take_along_dim", "put", "one_hot", "bernoulli", "binomial",
      "poisson", "multinomial", "normal", "normal_functional", "binary_cross_entropy", "bincount", "histc", "repeat_interleave", "inverse",
      "pinverse", "svd", "quantile", "nanquantile", "matrix_power", "ctc_loss", "_ctc_loss", "segment_reduce", "masked_scatter", "triangular_solve", "geqrf", "orgqr",
      "ormqr", "qr", "_pack_padded_sequence", "_pad_packed_sequence", "istft", "cov", "corrcoef", "searchsorted", "embedding_renorm", "view_as_complex"};
  static const std::unordered_set<std::string_view> harmless = {"linalg_vector_norm", "linalg_matmul", "linalg_vecdot", "linalg_cross", "linalg_diagonal", "linalg_multi_dot"};
  static constexpr std::array<std::string_view, 10> kBeginnings = {"scatter", "_scatter", "index_", "_index_", "linalg_", "_linalg_", "cholesky", "_cholesky", "lu_", "ldl_"};
  static constexpr std::array<std::string_view, 7> kParts = {"unpool", "margin_loss", "nll_loss", "cross_entropy", "histogram", "lstsq", "fake_quant"};
  if (names.count(name) != 0) return true;
  if (harmless.count(name) != 0) return false;
  return std::any_of(kBeginnings.begin(), kBeginnings.end(), [&](std::string_view part) { return name.rfind(part, 0) == 0; }) ||
         std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

/// By an integer divisor of zero, or a negative exponent.
bool divides(std::string_view name) {
  return name == "remainder" || name == "fmod" || name == "floor_divide" || name == "div" || name == "divide" || name == "pow" || name == "float_power";
}

}  // namespace

std::string_view base_name(const c10::OperatorHandle& op) {
  std::string_view name = op.operator_name().name;
  if (name.substr(0, 6) != "aten::") return {};
  name.remove_prefix(6);
  if (name.substr(0, 2) == "__") return name;
  while (!name.empty() && name.back() == '_') name.remove_suffix(1);
  return name;
}

bool is_elementwise(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {
      "add",  "sub",  "mul",  "div",   "neg",   "abs",   "sign",  "square",  "sqrt",       "rsqrt",     "reciprocal", "exp",  "exp2",   "expm1",      "log",
      "log2", "log10", "log1p", "sin", "cos",   "tan",   "asin",  "acos",    "atan",       "sinh",      "cosh",       "tanh", "erf",    "floor",      "ceil",
      "trunc", "round", "gt", "ge",    "lt",    "le",    "eq",    "ne",      "isnan",      "isinf",     "isfinite",   "clamp", "maximum", "minimum",   "logical_not",
      "relu", "relu6", "sigmoid", "silu", "gelu", "mish", "elu",  "softplus", "leaky_relu", "hardtanh", "hardswish",  "hardsigmoid", "clone"};
  return names.count(name) != 0;
}

bool is_mask(c10::ScalarType type) { return type == at::kBool || type == at::kByte; }

bool is_view(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"view", "expand", "expand_as", "permute", "transpose", "t", "numpy_T", "mT", "unsqueeze", "squeeze", "slice", "select", "narrow", "alias", "detach", "unbind", "split",
                                                             "split_with_sizes", "chunk", "diagonal", "movedim", "view_as", "unflatten", "swapaxes", "swapdims"};
  return names.count(name) != 0;
}

bool copies_by_layout(std::string_view name) {
  static const std::unordered_set<std::string_view> names = {"reshape", "reshape_as", "flatten", "ravel", "contiguous"};
  return names.count(name) != 0;
}

bool may_give_argument(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> unsaid = {
      "dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout", "type_as", "broadcast_tensors", "meshgrid", "atleast_1d",
      "atleast_2d", "atleast_3d", "pad", "constant_pad_nd", "real", "tensor_split", "hsplit", "vsplit",
      "dsplit", "flatten_dense_tensors", "unflatten_dense_tensors", "positive", "resolve_conj", "resolve_neg", "conj", "combinations",
      "fliplr", "movedim", "rot90", "einsum", "pin_memory", "to_dense", "unsafe_split", "unsafe_split_with_sizes", "unsafe_chunk", "_unsafe_view", "cartesian_prod", "conj_physical",
      "sum_to_size", "histogramdd", "_autocast_to_reduced_precision", "_autocast_to_full_precision",
      "quantize_per_tensor"};
  const auto& formals = op.schema().arguments();
  if (std::any_of(formals.begin(), formals.end(), [](const c10::Argument& formal) { return formal.alias_info() != nullptr; })) return true;
  const std::string& name = op.operator_name().name;
  return name.rfind("aten::", 0) == 0 && unsaid.count(std::string_view(name).substr(6)) != 0;
}

bool touches_unsized(const Graph& graph, const Node& node) {
  auto is_unsized = [&](ValueId id) {
    const Value* value = id == kNoValue ? nullptr : &graph.values[static_cast<std::size_t>(id)];
    return value && value->is_tensor() && value->tensor().unsized;
  };
  bool any = std::any_of(node.outputs.begin(), node.outputs.end(), is_unsized);
  visit_values(node, [&](ValueId id) { any = any || is_unsized(id); });
  return any;
}

bool sums_up(std::string_view name) { return name == "sum" || name == "mean"; }

bool may_raise_on_data(const c10::OperatorHandle& op, bool integers) {
  const std::string_view name = base_name(op);
  const bool by_offset = name == "view" && op.operator_name().overload_name == "dtype";  // where the tensor begins is no guard
  return name.empty() || by_offset || depends_on_data(name) || (integers && divides(name));
}

bool raises_half_way(const c10::OperatorHandle& op, bool integers) {
  const std::string_view name = base_name(op);
  return op.schema().is_mutable() && ((integers && divides(name)) || name.rfind("index_add", 0) == 0 || name.rfind("index_reduce", 0) == 0 || name.rfind("scatter_add", 0) == 0 || name.rfind("scatter_reduce", 0) == 0);
}

bool takes_data_number(const Graph& graph, const Node& node) {
  bool any = false;
  visit_values(node, [&](ValueId id) {
    const Value& value = graph.values[static_cast<std::size_t>(id)];
    any = any || (value.is_tensor() && value.tensor().number && value.tensor().unsized);
  });
  return any;
}

const c10::IValue* constant_of(const Node& node, std::string_view parameter) {
  const auto& parameters = node.op.schema().arguments();
  const auto found = std::find_if(parameters.begin(), parameters.end(), [&](const c10::Argument& one) { return one.name() == parameter; });
  if (found == parameters.end()) return nullptr;
  const Argument& argument = node.arguments[static_cast<std::size_t>(found - parameters.begin())];
  return argument.is_constant() ? &argument.constant() : nullptr;
}

bool draws_random(const Node& node) {
  if (!node.op.hasTag(at::Tag::nondeterministic_seeded)) return false;
  for (const char* flag : {"train", "training"}) {
    if (const c10::IValue* trains = constant_of(node, flag); trains && trains->isBool() && !trains->toBool()) return false;
  }
  const c10::IValue* dropout = constant_of(node, "dropout_p");
  return node.op.operator_name().name != "aten::scaled_dot_product_attention" || !dropout || !dropout->isDouble() || dropout->toDouble() != 0.0;
}

/// Sizes that data decides may not fit each other.
static bool may_raise_on_sizes(const Graph& graph, const Node& node) {
  if (takes_data_number(graph, node)) return true;
  std::size_t unsized = 0, tensors = 0;
  visit_values(node, [&](ValueId id) {
    const Value& value = graph.values[static_cast<std::size_t>(id)];
    if (!value.is_tensor() || value.tensor().number) return;
    tensors++;
    unsized += value.tensor().unsized ? 1 : 0;
  });
  const std::string_view name = base_name(node.op);
  return unsized > 0 && (tensors > 1 || !(is_elementwise(name) || sums_up(name)));
}

bool may_raise_on_data(const Graph& graph, const Node& node) {
  if (may_raise_on_sizes(graph, node)) return true;
  const std::string_view name = base_name(node.op);
  if (name == "select" || name == "select_copy" || name == "narrow" || name == "narrow_copy") return node.arguments[2].is_value();
  auto is_integer = [&](const Argument& argument) {
    if (!argument.is_value() || argument.value() == kNoValue) return false;
    const Value& value = graph.values[static_cast<std::size_t>(argument.value())];
    return value.is_tensor() ? c10::isIntegralType(value.tensor().dtype, true) : value.type == std::variant<TensorType, HostType>(HostType::kInt);
  };
  return may_raise_on_data(node.op, node.arguments.size() > 1 && is_integer(node.arguments[1]));
}

}  // namespace dynrun::graph
