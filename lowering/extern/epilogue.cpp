#include "lowering/extern/epilogue.h"

#include <ATen/Functions.h>

#include <unordered_map>

namespace dynrun::lowering {
namespace {

using Matcher = std::optional<Epilogue> (*)(const Node&);
using Function = std::function<at::Tensor(const at::Tensor&)>;

Epilogue make(const char* name, std::vector<double> scalars, bool needs_finite, Function exact) {
  Epilogue epilogue;
  epilogue.unary.name = name;
  epilogue.unary.scalars = std::move(scalars);
  epilogue.needs_finite = needs_finite;
  epilogue.exact = std::move(exact);
  return epilogue;
}

Epilogue make_clamp(double low, double high) {
  return make("hardtanh", {low, high}, true, [low, high](const at::Tensor& x) { return at::hardtanh(x, low, high); });
}

std::optional<Epilogue> match_clamp(const Node& node) {
  auto low = number_argument(node.arguments[1]), high = number_argument(node.arguments[2]);
  if (!low || !high || !(*low <= *high)) return std::nullopt;
  return make_clamp(*low, *high);
}

std::optional<Epilogue> match_gelu(const Node& node) {
  auto algorithm = text_argument(node.arguments[1]);
  if (!algorithm || (*algorithm != "none" && *algorithm != "tanh")) return std::nullopt;
  // libtorch's own gelu of a contiguous tensor is oneDNN's, at infinities too.
  Epilogue epilogue = make("gelu", {}, false, [name = *algorithm](const at::Tensor& x) { return at::gelu(x, name); });
  epilogue.unary.algorithm = *algorithm;
  return epilogue;
}

std::optional<Epilogue> match_leaky_relu(const Node& node) {
  auto slope = number_argument(node.arguments[1]);
  // A slope of zero takes oneDNN's relu path, which loses NaN.
  if (!slope || *slope == 0) return std::nullopt;
  return make("leaky_relu", {*slope}, false, [slope = *slope](const at::Tensor& x) { return at::leaky_relu(x, slope); });
}

std::optional<Epilogue> match_relu(const Node&) {
  return make("relu", {}, true, [](const at::Tensor& x) { return at::relu(x); });
}

std::optional<Epilogue> match_relu6(const Node&) {
  return make_clamp(0, 6);
}

std::optional<Epilogue> match_sigmoid(const Node&) {
  return make("sigmoid", {}, false, [](const at::Tensor& x) { return at::sigmoid(x); });
}

std::optional<Epilogue> match_tanh(const Node&) {
  return make("tanh", {}, false, [](const at::Tensor& x) { return at::tanh(x); });
}

std::optional<Epilogue> match_silu(const Node&) {
  return make("swish", {}, false, [](const at::Tensor& x) { return at::silu(x); });
}

std::optional<Epilogue> match_hardswish(const Node&) {
  return make("hardswish", {}, false, [](const at::Tensor& x) { return at::hardswish(x); });
}

std::optional<Epilogue> match_hardsigmoid(const Node&) {
  return make("hardsigmoid", {}, true, [](const at::Tensor& x) { return at::hardsigmoid(x); });
}

const std::unordered_map<std::string, Matcher>& matchers() {
  static const std::unordered_map<std::string, Matcher> table = {
      {"aten::relu", match_relu},   {"aten::relu6", match_relu6},           {"aten::hardtanh", match_clamp},
      {"aten::clamp", match_clamp}, {"aten::sigmoid", match_sigmoid},       {"aten::tanh", match_tanh},
      {"aten::silu", match_silu},   {"aten::hardswish", match_hardswish},   {"aten::hardsigmoid", match_hardsigmoid},
      {"aten::gelu", match_gelu},   {"aten::leaky_relu", match_leaky_relu},
  };
  return table;
}

}  // namespace

std::optional<Epilogue> match_epilogue(const Node& node) {
  auto found = matchers().find(node.op_name());
  if (found == matchers().end()) return std::nullopt;
  return found->second(node);
}

}  // namespace dynrun::lowering
