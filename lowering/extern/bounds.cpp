#include "lowering/extern/bounds.h"

#include "lowering/extern/candidates.h"

#include "lowering/extern/convolution_call.h"

#include <ATen/Functions.h>

#include <cmath>
#include <limits>
#include <unordered_map>

namespace dynrun::lowering {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::infinity();

double usable(double bound) {
  return bound <= Bounds::kFinite ? bound : kUnknown;
}  // NaN is unknown too

double largest(const at::Tensor& tensor) {
  if (tensor.numel() == 0) return 0;
  const auto [least, most] = at::aminmax(tensor);
  return usable(std::max(std::abs(least.item<double>()), std::abs(most.item<double>())));
}

/// The largest sum of |weight| over an output channel (rows of `weight` as a matrix).
double largest_row(const at::Tensor& weight) {
  if (weight.numel() == 0) return 0;
  return usable(at::amax(at::linalg_vector_norm(weight.flatten(1), 1, at::IntArrayRef{1})).item<double>());
}

/// How many ints a constant list holds.
std::size_t count_ints(const Argument& argument) {
  if (argument.is_list()) return argument.items().size();
  if (!argument.is_constant() || !argument.constant().isList()) return 0;
  return argument.constant().toListRef().size();
}

enum class Rule { kKeep, kOne, kSum, kProduct, kLargest };

const std::unordered_map<std::string, Rule>& rules() {
  static const std::unordered_map<std::string, Rule> table = {
      // |f(x)| <= |x|
      {"aten::relu", Rule::kKeep},
      {"aten::silu", Rule::kKeep},
      {"aten::hardswish", Rule::kKeep},
      {"aten::gelu", Rule::kKeep},
      {"aten::abs", Rule::kKeep},
      {"aten::neg", Rule::kKeep},
      {"aten::clone", Rule::kKeep},
      {"aten::contiguous", Rule::kKeep},
      {"aten::max_pool2d", Rule::kKeep},
      {"aten::adaptive_avg_pool2d", Rule::kKeep},
      {"aten::mean.dim", Rule::kKeep},
      {"aten::mean", Rule::kKeep},
      {"aten::amax", Rule::kKeep},
      {"aten::relu6", Rule::kKeep},
      {"aten::index_select", Rule::kKeep},
      {"aten::roll", Rule::kKeep},
      {"aten::flip", Rule::kKeep},
      {"aten::_to_copy", Rule::kKeep},
      {"aten::adaptive_max_pool2d", Rule::kKeep},
      {"aten::embedding", Rule::kKeep},
      // in [-1, 1]
      {"aten::sigmoid", Rule::kOne},
      {"aten::hardsigmoid", Rule::kOne},
      {"aten::tanh", Rule::kOne},
      {"aten::cos", Rule::kOne},
      {"aten::sin", Rule::kOne},
      {"aten::mul.Tensor", Rule::kProduct},
      {"aten::cat", Rule::kLargest},
      {"aten::stack", Rule::kLargest},
      {"aten::add.Tensor", Rule::kSum},
      {"aten::sub.Tensor", Rule::kSum},
  };
  return table;
}

}  // namespace

Bounds::Bounds(Program& program) : program_(program), bounds_(program.graph.values.size(), -1) {}

void Bounds::set(ValueId id, double bound) {
  bounds_.resize(std::max(bounds_.size(), program_.graph.values.size()), -1);
  bounds_[static_cast<std::size_t>(id)] = bound;
}

double Bounds::known_bound(ValueId id) {
  auto tensor = program_.known(id);
  if (!tensor || !is_plain_float(program_, id)) return kUnknown;
  program_.mark_folded(id);
  return largest(*tensor);
}

double Bounds::of(ValueId id) {
  id = program_.root(id);
  bounds_.resize(std::max(bounds_.size(), program_.graph.values.size()), -1);
  double& bound = bounds_[static_cast<std::size_t>(id)];
  if (bound < 0) bound = known_bound(id);
  return bound;
}

double Bounds::argument_bound(const Node& node, std::size_t index) {
  const Argument& argument = node.arguments[index];
  if (auto number = number_argument(argument)) return std::abs(*number);
  if (auto id = tensor_argument(program_, argument)) return of(*id);
  return kUnknown;
}

void Bounds::remember_weight(ValueId weight) {
  if (row_bounds_.count(weight) != 0) return;
  auto tensor = program_.known(weight);
  if (!tensor) return;
  program_.mark_folded(weight);
  const OneThread one_thread;
  row_bounds_.emplace(weight, largest_row(*tensor));
}

double Bounds::convolution(const Node& node) {
  auto call = read_convolution(program_, node);
  if (!call) return kUnknown;
  const double input = of(call->input);
  if (input == kUnknown) return kUnknown;
  const double bias = call->bias == graph::kNoValue ? 0 : of(call->bias);
  remember_weight(call->weight);
  auto row = row_bounds_.find(call->weight);
  return row == row_bounds_.end() ? kUnknown : input * row->second + bias;
}

double Bounds::linear(const Node& node) {
  const bool addmm = node.op_name() == "aten::addmm";
  const double input = argument_bound(node, addmm ? 1 : 0);
  auto weight = tensor_argument(program_, node.arguments[addmm ? 2 : 1]);
  if (input == kUnknown || !weight || !program_.known(*weight) || !is_plain_float(program_, *weight)) return kUnknown;
  const bool has_bias = addmm || !(node.arguments[2].is_constant() && node.arguments[2].constant().isNone());
  const double bias = has_bias ? argument_bound(node, addmm ? 0 : 2) : 0;
  if (addmm && (number_argument(node.arguments[3]) != 1.0 || number_argument(node.arguments[4]) != 1.0)) return kUnknown;
  program_.mark_folded(*weight);
  const at::Tensor tensor = *program_.known(*weight);
  if (tensor.dim() != 2) return kUnknown;
  return input * largest_row(addmm ? tensor.t() : tensor) + bias;
}

/// Layer norm and its kin: a normalised element is at most the square root of how many there are.
double Bounds::normalisation(const Node& node, std::size_t count_from, std::size_t weight, std::size_t bias) {
  constexpr double kSquareIsFinite = 1e16;
  auto input = tensor_argument(program_, node.arguments[0]);
  if (!input || of(*input) > kSquareIsFinite) return kUnknown;
  double count = 1;
  const auto& sizes = program_.graph.type_of(*input).sizes;
  for (std::size_t axis = count_from; axis < sizes.size(); ++axis) count *= static_cast<double>(sizes[axis]);
  auto given = [&](std::size_t index) {
    return !(node.arguments[index].is_constant() && node.arguments[index].constant().isNone());
  };
  const double scale = given(weight) ? argument_bound(node, weight) : 1;
  const double shift = given(bias) ? argument_bound(node, bias) : 0;
  return std::sqrt(count) * scale + shift;
}

/// Batch norm on running statistics: an affine function of each channel.
double Bounds::batch_norm(const Node& node) {
  if (bool_argument(node.arguments[5]) != std::optional<bool>(false)) return kUnknown;
  auto epsilon = number_argument(node.arguments[7]);
  auto mean = tensor_argument(program_, node.arguments[3]), variance = tensor_argument(program_, node.arguments[4]);
  if (!epsilon || !mean || !variance || !program_.known(*variance)) return kUnknown;
  auto given = [&](std::size_t index) {
    return !(node.arguments[index].is_constant() && node.arguments[index].constant().isNone());
  };
  program_.mark_folded(*variance);
  const double deviation = std::sqrt(at::amin(*program_.known(*variance)).item<double>() + *epsilon);
  const double scale = given(1) ? argument_bound(node, 1) : 1, shift = given(2) ? argument_bound(node, 2) : 0;
  if (!(deviation > 0)) return kUnknown;
  return (argument_bound(node, 0) + of(*mean)) / deviation * scale + shift;
}

double Bounds::transfer(const Node& node) {
  const std::string name = node.op_name();
  if (name == "aten::conv2d" || name == "aten::conv2d.padding" || name == "aten::convolution") return convolution(node);
  if (name == "aten::linear" || name == "aten::addmm") return linear(node);
  if (name == "aten::batch_norm") return batch_norm(node);
  if (name == "aten::layer_norm") {
    auto input = tensor_argument(program_, node.arguments[0]);
    if (!input) return kUnknown;
    const std::size_t axes = count_ints(node.arguments[1]);
    if (axes == 0) return kUnknown;
    return normalisation(node, program_.graph.type_of(*input).sizes.size() - axes, 2, 3);
  }
  if (name == "aten::avg_pool2d") {
    const bool own_divisor = !(node.arguments[6].is_constant() && node.arguments[6].constant().isNone());
    return own_divisor ? kUnknown : argument_bound(node, 0);
  }
  if (name == "aten::hardtanh" || name == "aten::clamp") {
    auto low = number_argument(node.arguments[1]), high = number_argument(node.arguments[2]);
    // NaN passes through a clamp: only a bounded input gives a bounded result.
    if (!low || !high || argument_bound(node, 0) == kUnknown) return kUnknown;
    return std::max(std::abs(*low), std::abs(*high));
  }
  if (name == "aten::softmax.int" || name == "aten::_softmax") return argument_bound(node, 0) == kUnknown ? kUnknown : 1;
  if (name == "aten::scaled_dot_product_attention") {
    constexpr double kScoresAreFinite = 1e16;
    // A mask may exclude every key of a query: the result is NaN then.
    if (!(node.arguments[3].is_constant() && node.arguments[3].constant().isNone())) return kUnknown;
    if (argument_bound(node, 0) > kScoresAreFinite || argument_bound(node, 1) > kScoresAreFinite) return kUnknown;
    return argument_bound(node, 2);
  }
  auto rule = rules().find(name);
  if (rule == rules().end()) return kUnknown;
  switch (rule->second) {
    case Rule::kKeep:
      return argument_bound(node, 0);
    case Rule::kOne:
      return argument_bound(node, 0) == kUnknown ? kUnknown : 1;
    case Rule::kProduct:
      return argument_bound(node, 0) * argument_bound(node, 1);
    case Rule::kSum: {
      auto alpha = number_argument(node.arguments[2]);
      return alpha ? argument_bound(node, 0) + std::abs(*alpha) * argument_bound(node, 1) : kUnknown;
    }
    case Rule::kLargest: {
      if (!node.arguments[0].is_list()) return kUnknown;
      double bound = 0;
      for (const Argument& item : node.arguments[0].items())
        bound = std::max(bound, item.is_value() ? of(item.value()) : kUnknown);
      return bound;
    }
  }
  return kUnknown;
}

void Bounds::visit(const Node& node) {
  if (node.outputs.empty() || node.outputs[0] == graph::kNoValue) return;
  double bound = node.outputs.size() == 1 ? transfer(node) : kUnknown;
  for (ValueId output : node.outputs) {
    if (output == graph::kNoValue || !program_.graph.values[static_cast<std::size_t>(output)].is_tensor()) continue;
    // An in-place node's output is a value that has a bound already: it may grow.
    set(program_.root(output), std::isnan(bound) || bound > kFinite || !is_plain_float(program_, output) ? kUnknown : bound);
  }
}

}  // namespace dynrun::lowering
