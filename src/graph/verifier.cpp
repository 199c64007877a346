#include "graph/graph.h"
#include "graph/text.h"

#include <fmt/format.h>

#include <unordered_set>

namespace dynrun::graph {
namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), defined_(graph.values.size(), false) {}

  std::optional<std::string> run() {
    check_names();
    for (const Input& input : graph_.inputs) {
      if (!in_range(input.value) || !graph_.values[index(input.value)].is_tensor()) return "an input is not a tensor value";
      if (defined_[index(input.value)]) return fmt::format("%{} is an input twice", name(input.value));
      defined_[index(input.value)] = true;
    }
    for (std::size_t i = 0; i < graph_.nodes.size() && !error_; ++i) check_node(i);
    for (ValueId id : graph_.outputs) {
      if (id != kNoValue && !is_defined(id)) fail("an output is not defined");
    }
    return error_;
  }

 private:
  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }
  bool in_range(ValueId id) const { return id >= 0 && index(id) < graph_.values.size(); }
  bool is_defined(ValueId id) const { return in_range(id) && defined_[index(id)]; }
  const std::string& name(ValueId id) const { return graph_.values[index(id)].name; }
  void fail(std::string what) {
    if (!error_) error_ = std::move(what);
  }

  void check_names() {
    std::unordered_set<std::string_view> names;
    for (const Value& value : graph_.values) {
      if (value.name.empty()) fail("a value has no name");
      if (!names.insert(value.name).second) fail(fmt::format("two values are named %{}", value.name));
      if (value.is_tensor() && !value.tensor().strides.empty() &&
          value.tensor().strides.size() != value.tensor().sizes.size()) {
        fail(fmt::format("%{} has {} sizes and {} strides", value.name, value.tensor().sizes.size(),
                         value.tensor().strides.size()));
      }
    }
  }

  void check_argument(std::size_t at, const Argument& argument) {
    if (argument.is_list()) {
      for (const Argument& item : argument.items()) check_argument(at, item);
    } else if (argument.is_value()) {
      if (!is_defined(argument.value())) fail(fmt::format("node {}: an argument is used before it is made", at));
    } else if (argument.constant().isTensor()) {
      fail(fmt::format("node {}: a constant holds a tensor", at));
    }
  }

  void check_node(std::size_t at) {
    const Node& node = graph_.nodes[at];
    const c10::FunctionSchema& schema = node.op.schema();
    if (node.arguments.size() != schema.arguments().size()) {
      return fail(fmt::format("node {} ({}): {} arguments, the schema has {}", at, node.op_name(), node.arguments.size(),
                              schema.arguments().size()));
    }
    for (const Argument& argument : node.arguments) check_argument(at, argument);
    if (node.return_lengths.size() != schema.returns().size()) {
      return fail(fmt::format("node {} ({}): {} returns, the schema has {}", at, node.op_name(), node.return_lengths.size(),
                              schema.returns().size()));
    }
    std::size_t count = 0;
    for (std::int32_t length : node.return_lengths) count += static_cast<std::size_t>(length < 0 ? 1 : length);
    if (count != node.outputs.size())
      return fail(fmt::format("node {} ({}): outputs do not fit its returns", at, node.op_name()));
    for (ValueId id : node.outputs) {
      if (id == kNoValue) continue;
      if (!in_range(id)) return fail(fmt::format("node {} ({}): an output is no value", at, node.op_name()));
      defined_[index(id)] = true;
    }
    if (node.source >= static_cast<std::int32_t>(graph_.sources.size())) fail(fmt::format("node {}: no such source line", at));
  }

  const Graph& graph_;
  std::vector<bool> defined_;
  std::optional<std::string> error_;
};

}  // namespace

std::optional<std::string> verify(const Graph& graph) {
  return Verifier(graph).run();
}

}  // namespace dynrun::graph
