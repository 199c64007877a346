// The text form of a graph, one item a line:
//
//   graph
//   source 0 "model.py" "forward" 12
//   input %x: float32[1, 3, 8, 8]
//   parameter %weight: float32[4, 3, 1, 1]{3, 1, 1, 1}
//   %y: float32[1, 4, 8, 8] = aten::conv2d(%x, %weight, None, int[1, 1], int[0, 0], int[1, 1], 1) source 0
//   %y = aten::relu_(%y) mode(inference)
//   [%a: float32[2], %b: float32[2]] = aten::chunk(%c, 2, 0)
//   return %y
//
// Types: dtype, @device unless CPU, [sizes], {strides} unless contiguous ({-}: not strided), !grad when gradients are
// required, !number for a Python number in a tensor, !lazy for a conjugated or negated one, !unsized where the sizes are those of one run; `int`, `float` and `bool` are host values. An output without a type is an earlier value, `_` one that is undefined.
// A constant is None, true, 1, 1.0, "text", device("cpu"), complex(1.0, 2.0), int[...], float[...], bool[...] or str[...];
// [...] is a list of arguments.

#include "graph/graph.h"
#include "graph/text.h"

#include <fmt/format.h>

namespace dynrun::graph {
namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string print_double(double value) {
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".einf") == std::string::npos ? text + ".0" : text;
}

template <typename Items, typename Print>
std::string join(const Items& items, Print print) {
  std::string out;
  for (const auto& item : items) {
    if (!out.empty()) out += ", ";
    out += print(item);
  }
  return out;
}

std::string print_int(std::int64_t value) {
  return std::to_string(value);
}

std::string print_constant(const c10::IValue& value) {
  if (value.isNone()) return "None";
  if (value.isBool()) return value.toBool() ? "true" : "false";
  if (value.isInt()) return print_int(value.toInt());
  if (value.isSymInt()) return print_int(value.toSymInt().guard_int(__FILE__, __LINE__));
  if (value.isDouble()) return print_double(value.toDouble());
  if (value.isString()) return quote(value.toStringRef());
  if (value.isDevice()) return fmt::format("device({})", quote(value.toDevice().str()));
  if (value.isComplexDouble()) {
    auto number = value.toComplexDouble();
    return fmt::format("complex({}, {})", print_double(number.real()), print_double(number.imag()));
  }
  if (value.isIntList()) return "int[" + join(value.toIntVector(), print_int) + "]";
  if (value.isDoubleList()) return "float[" + join(value.toDoubleVector(), print_double) + "]";
  if (value.isBoolList()) {
    return "bool[" + join(value.toBoolList().vec(), [](bool b) { return std::string(b ? "true" : "false"); }) + "]";
  }
  if (value.isList()) return "[" + join(value.toListRef(), print_constant) + "]";
  return fmt::format("<{}>", value.tagKind());
}

std::string print_argument(const Graph& graph, const Argument& argument) {
  if (argument.is_value()) {
    return argument.value() == kNoValue ? "_" : "%" + graph.values[static_cast<std::size_t>(argument.value())].name;
  }
  if (argument.is_list()) {
    return "[" + join(argument.items(), [&](const Argument& item) { return print_argument(graph, item); }) + "]";
  }
  return print_constant(argument.constant());
}

std::string print_value_type(const Value& value) {
  if (value.is_tensor()) return print_type(value.tensor());
  switch (std::get<HostType>(value.type)) {
    case HostType::kInt:
      return "int";
    case HostType::kFloat:
      return "float";
    case HostType::kBool:
      return "bool";
  }
  return "int";
}

/// Prints an output with its type where this node is the one that makes it.
class OutputPrinter {
 public:
  explicit OutputPrinter(const Graph& graph) : graph_(graph), known_(graph.values.size(), false) {
    for (const Input& input : graph.inputs) known_[static_cast<std::size_t>(input.value)] = true;
  }
  std::string print(ValueId id) {
    if (id == kNoValue) return "_";
    auto index = static_cast<std::size_t>(id);
    std::string text = "%" + graph_.values[index].name;
    if (!known_[index]) text += ": " + print_value_type(graph_.values[index]);
    known_[index] = true;
    return text;
  }

 private:
  const Graph& graph_;
  std::vector<bool> known_;
};

std::string print_with(const Graph& graph, const Node& node, OutputPrinter& printer) {
  std::string line;
  std::size_t next = 0;
  for (std::int32_t length : node.return_lengths) {
    if (!line.empty()) line += ", ";
    if (length < 0) {
      line += printer.print(node.outputs[next++]);
      continue;
    }
    line += "[";
    for (std::int32_t i = 0; i < length; ++i) line += (i == 0 ? "" : ", ") + printer.print(node.outputs[next++]);
    line += "]";
  }
  if (!node.return_lengths.empty()) line += " = ";
  line += node.op_name() + "(";
  line += join(node.arguments, [&](const Argument& argument) { return print_argument(graph, argument); }) + ")";
  std::string mode;
  auto add = [&](std::string word) { mode += (mode.empty() ? "" : ", ") + word; };
  if (node.mode.grad_enabled) add("grad");
  if (node.mode.inference) add("inference");
  if (node.mode.autocast) add((node.mode.autocast_device == c10::kCUDA ? "autocast cuda " : "autocast ") + std::string(dtype_name(node.mode.autocast_dtype)));
  if (!mode.empty()) line += " mode(" + mode + ")";
  if (node.source >= 0) line += fmt::format(" source {}", node.source);
  return line;
}

}  // namespace

std::string print_type(const TensorType& type) {
  std::string text(dtype_name(type.dtype));
  if (!type.device.is_cpu()) text += "@" + type.device.str();
  text += "[" + join(type.sizes, print_int) + "]";
  if (type.strides.size() != type.sizes.size()) {
    text += "{-}";
  } else if (type.strides != contiguous_strides(type.sizes)) {
    text += "{" + join(type.strides, print_int) + "}";
  }
  if (type.number) text += "!number";
  if (type.lazy) text += "!lazy";
  if (type.unsized) text += "!unsized";
  return type.requires_grad ? text + "!grad" : text;
}

std::string print_node(const Graph& graph, const Node& node) {
  OutputPrinter printer(graph);
  return print_with(graph, node, printer);
}

std::string print(const Graph& graph) {
  std::string out = "graph\n";
  for (std::size_t i = 0; i < graph.sources.size(); ++i) {
    const Source& source = graph.sources[i];
    out += fmt::format("source {} {} {} {}\n", i, quote(source.file), quote(source.function), source.line);
  }
  for (const Input& input : graph.inputs) {
    const Value& value = graph.values[static_cast<std::size_t>(input.value)];
    const char* kind = input.kind == InputKind::kParameter ? "parameter" : "input";
    out += fmt::format("{} %{}: {}\n", kind, value.name, print_value_type(value));
  }
  OutputPrinter printer(graph);
  for (const Node& node : graph.nodes) out += print_with(graph, node, printer) + "\n";
  out += "return";
  for (std::size_t i = 0; i < graph.outputs.size(); ++i) {
    ValueId id = graph.outputs[i];
    out += (i == 0 ? " " : ", ") + (id == kNoValue ? "_" : "%" + graph.values[static_cast<std::size_t>(id)].name);
  }
  return out + "\n";
}

}  // namespace dynrun::graph
