// split_linear_bias: float32 linear with bias -> a product, then an addition that fuses with what follows.
//
// Worth it on a GPU where the library's product without an epilogue is the faster one, which is measured. Half types keep the
// epilogue: it adds before it rounds.

#include "lowering/extern/arguments.h"
#include "lowering/loops/decompose.h"
#include "lowering/passes/passes.h"

namespace dynrun::lowering {
namespace {

/// What a node multiplies and adds, as arguments of a product without bias.
struct Product {
  const char* name = nullptr;
  std::vector<Argument> arguments;
  ValueId bias = graph::kNoValue;
};

std::optional<Product> match(const Program& program, const Node& node) {
  const std::string name = node.op_name();
  Product product;
  if (name == "aten::linear") {
    auto bias = optional_tensor(program, node.arguments[2]);
    if (!bias || *bias == graph::kNoValue) return std::nullopt;
    product = {"aten::linear", {node.arguments[0], node.arguments[1], Argument::constant({})}, *bias};
  } else if (name == "aten::addmm") {
    auto bias = tensor_argument(program, node.arguments[0]);
    if (!bias || number_argument(node.arguments[3]) != 1.0 || number_argument(node.arguments[4]) != 1.0) return std::nullopt;
    product = {"aten::mm", {node.arguments[1], node.arguments[2]}, *bias};
  } else {
    return std::nullopt;
  }
  const TensorType& result = program.graph.type_of(node.outputs[0]);
  const TensorType& bias = program.graph.type_of(product.bias);
  if (result.dtype != c10::ScalarType::Float || result.unsized || bias.sizes.size() != 1 || bias.sizes[0] != result.sizes.back()) return std::nullopt;
  return product;
}

/// Whether the one reader of a value would be part of a generated kernel.
bool fuses_with_reader(const Program& program, const Uses& uses, ValueId value) {
  const auto& readers = uses.readers(value);
  if (readers.size() != 1 || !uses.only_reader(value, readers[0]) || program.has_effect(readers[0])) return false;
  return decompose(program, program.graph.nodes[static_cast<std::size_t>(readers[0])]).has_value();
}

}  // namespace

bool split_linear_bias(Program& program) {
  const Uses uses(program);
  std::vector<Node> nodes;
  bool any = false;
  for (std::size_t index = 0; index < program.graph.nodes.size(); ++index) {
    const Node& node = program.graph.nodes[index];
    std::optional<Product> product;
    if (node.outputs.size() == 1 && node.outputs[0] != graph::kNoValue && !program.has_effect(static_cast<std::int32_t>(index))) product = match(program, node);
    if (!product || !fuses_with_reader(program, uses, node.outputs[0])) {
      nodes.push_back(node);
      continue;
    }
    any = true;
    const ValueId multiplied = program.add_value(program.graph.type_of(node.outputs[0]), "product");
    auto find = [](const char* name, const char* overload) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload); };
    nodes.push_back({find(product->name, ""), product->arguments, {multiplied}, {-1}, node.mode, node.source});
    nodes.push_back({find("aten::add", "Tensor"),
                     {Argument::reference(multiplied), Argument::reference(product->bias), Argument::constant(std::int64_t{1})},
                     {node.outputs[0]},
                     {-1},
                     node.mode,
                     node.source});
  }
  program.graph.nodes = std::move(nodes);
  return any;
}

}  // namespace dynrun::lowering
