#include "lowering/program.h"

#include "graph/operators.h"
#include "graph/text.h"
#include "graph/visit.h"

#include <array>

namespace dynrun::lowering {
namespace {

using graph::draws_random;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

std::string_view base_name(const Node& node) {
  return node.op.operator_name().name;
}

/// Operators that write their running statistics without saying so in the schema.
bool updates_statistics(const Node& node) {
  static constexpr std::array<std::string_view, 8> kNorms = {
      "aten::batch_norm",        "aten::native_batch_norm",        "aten::instance_norm",
      "aten::cudnn_batch_norm",  "aten::_native_batch_norm_legit", "aten::_batch_norm_impl_index",
      "aten::miopen_batch_norm", "aten::_batch_norm_with_update"};
  if (std::find(kNorms.begin(), kNorms.end(), base_name(node)) == kNorms.end()) return false;
  const c10::IValue *training = graph::constant_of(node, "training"), *from_input = graph::constant_of(node, "use_input_stats");
  const c10::IValue* flag = training ? training : from_input;
  return !flag || !flag->isBool() || flag->toBool();
}

}  // namespace

ValueId Program::root(ValueId id) const {
  auto found = views.find(id);
  return found == views.end() ? id : found->second.root;
}

std::optional<at::Tensor> Program::known(ValueId id) const {
  if (id == kNoValue) return std::nullopt;
  ValueId base = root(id);
  at::Tensor tensor;
  if (auto constant = constants.find(base); constant != constants.end()) {
    tensor = constant->second;
  } else if (options != nullptr && options->fold_parameters) {
    for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
      if (graph.inputs[i].value == base && graph.inputs[i].kind == graph::InputKind::kParameter) tensor = examples[i];
    }
  }
  if (!tensor.defined()) return std::nullopt;
  if (base == id) return tensor;
  const graph::TensorType& type = graph.type_of(id);
  return tensor.as_strided(type.sizes, type.strides, tensor.storage_offset() + views.at(id).offset);
}

void Program::mark_folded(ValueId id) {
  ValueId base = root(id);
  for (std::size_t i = 0; i < graph.inputs.size(); ++i) {
    if (graph.inputs[i].value == base) folded[i] = true;
  }
}

ValueId Program::add_constant(at::Tensor tensor, std::string name) {
  ValueId id = add_value(graph::TensorType::of(tensor), std::move(name));
  constants.emplace(id, std::move(tensor));
  return id;
}

ValueId Program::add_value(graph::TensorType type, std::string name) {
  return graph.add_value({std::move(type), name + "." + std::to_string(graph.values.size())});
}

bool Program::writes(std::int32_t index) const {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  for (const c10::Argument& formal : node.op.schema().arguments()) {
    if (formal.alias_info() != nullptr && formal.alias_info()->isWrite()) return true;
  }
  return updates_statistics(node);
}

bool Program::has_effect(std::int32_t index) const {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  std::string_view name = base_name(node);
  return name.substr(0, 6) != "aten::" || name.substr(0, 13) == "aten::_assert" || node.outputs.empty() || draws_random(node) ||
         writes(index);
}

bool Program::is_elsewhere(ValueId id) const {
  if (id == kNoValue || pretended) return false;
  const graph::Value& value = graph.values[static_cast<std::size_t>(id)];
  return value.is_tensor() && value.tensor().device != device;
}

bool Program::touches_unsized(std::int32_t index) const {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  bool elsewhere = std::any_of(node.outputs.begin(), node.outputs.end(), [&](ValueId id) { return is_elsewhere(id); });
  visit_values(node, [&](ValueId id) { elsewhere = elsewhere || is_elsewhere(id); });
  return elsewhere || graph::touches_unsized(graph, node);
}

bool Program::is_repeatable() const {
  for (std::size_t i = 0; i < graph.nodes.size(); ++i) {
    const auto node = static_cast<std::int32_t>(i);
    if ((has_effect(node) && !writes_own(node)) || touches_unsized(node)) return false;
  }
  return true;
}

bool Program::writes_own(std::int32_t index) const {
  const Node& node = graph.nodes[static_cast<std::size_t>(index)];
  const std::string_view name = base_name(node);
  if (name.substr(0, 6) != "aten::" || node.outputs.empty() || draws_random(node) || updates_statistics(node)) return false;
  bool any = false;
  const auto& formals = node.op.schema().arguments();
  for (std::size_t i = 0; i < formals.size(); ++i) {
    if (formals[i].alias_info() == nullptr || !formals[i].alias_info()->isWrite()) continue;
    if (!node.arguments[i].is_value() || node.arguments[i].value() == kNoValue || !is_made_here(root(node.arguments[i].value()))) return false;
    any = true;
  }
  return any;
}

bool Program::is_made_here(ValueId id) const {
  for (const Node& node : graph.nodes) {
    if (std::find(node.outputs.begin(), node.outputs.end(), id) == node.outputs.end()) continue;
    const auto& formals = node.op.schema().arguments();
    const bool writer = std::any_of(formals.begin(), formals.end(), [](const c10::Argument& formal) { return formal.alias_info() != nullptr; });
    return !writer && !graph::may_give_argument(node.op);
  }
  return false;
}

bool Program::can_sink(std::int32_t from, std::int32_t to) const {
  for (std::int32_t between = from + 1; between <= to; ++between) {
    if (writes(between)) return false;
  }
  return !has_effect(from);
}

bool reads_few_channels(const graph::Graph& graph, const graph::Node& convolution) {
  constexpr std::int64_t kFew = 8;  // of a half type fill one access
  if (!convolution.arguments[0].is_value()) return false;
  const std::vector<std::int64_t>& sizes = graph.type_of(convolution.arguments[0].value()).sizes;
  return sizes.size() == 4 && sizes[1] < kFew;
}

std::optional<std::string> verify(const Program& program) {
  graph::Graph known = program.graph;
  for (const auto& [id, view] : program.views) {
    const std::string& name = program.graph.values[static_cast<std::size_t>(id)].name;
    if (program.is_view(view.root)) return "%" + name + " is a view of a view";
    if (program.graph.type_of(id).dtype != program.graph.type_of(view.root).dtype)
      return "%" + name + " has another dtype than its root";
    known.inputs.push_back({id, graph::InputKind::kActivation});
  }
  for (const auto& [id, tensor] : program.constants) {
    if (program.graph.type_of(id).sizes != tensor.sizes()) {
      return "%" + program.graph.values[static_cast<std::size_t>(id)].name + " has other sizes than its constant";
    }
    known.inputs.push_back({id, graph::InputKind::kActivation});
  }
  return graph::verify(known);
}

std::string print(const Program& program) {
  auto declare = [&](ValueId id) {
    const graph::Value& value = program.graph.values[static_cast<std::size_t>(id)];
    return "%" + value.name + ": " + graph::print_type(value.tensor());
  };
  std::vector<std::string> lines;
  for (const auto& [id, view] : program.views) {
    lines.push_back("view " + declare(id) + " = %" + program.graph.values[static_cast<std::size_t>(view.root)].name + " + " +
                    std::to_string(view.offset) + "\n");
  }
  for (const auto& [id, tensor] : program.constants) lines.push_back("constant " + declare(id) + "\n");
  std::sort(lines.begin(), lines.end());
  std::string out;
  for (const std::string& line : lines) out += line;
  return out + graph::print(program.graph);
}

Uses::Uses(const Program& program)
    : producer_(program.graph.values.size(), -1),
      readers_(program.graph.values.size()),
      is_output_(program.graph.values.size(), false),
      has_views_(program.graph.values.size(), false) {
  auto read = [&](ValueId id, std::int32_t node) {
    auto& readers = readers_[static_cast<std::size_t>(id)];
    if (readers.empty() || readers.back() != node) readers.push_back(node);
  };
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    auto index = static_cast<std::int32_t>(i);
    visit_values(program.graph.nodes[i], [&](ValueId id) {
      read(id, index);
      if (ValueId base = program.root(id); base != id) read(base, index);
    });
    for (ValueId id : program.graph.nodes[i].outputs) {
      if (id != kNoValue && producer_[static_cast<std::size_t>(id)] < 0) producer_[static_cast<std::size_t>(id)] = index;
    }
  }
  for (ValueId id : program.graph.outputs) {
    if (id != kNoValue) is_output_[static_cast<std::size_t>(id)] = true;
  }
  for (const auto& [id, view] : program.views) has_views_[static_cast<std::size_t>(view.root)] = true;
}

bool Uses::only_reader(ValueId id, std::int32_t node) const {
  return readers(id).size() == 1 && readers(id)[0] == node && !is_output(id) && !has_views(id);
}

}  // namespace dynrun::lowering
