#include "lowering/passes/passes.h"

#include "graph/visit.h"
#include "runtime/dispatch.h"

#include <ATen/ATen.h>

#include <unordered_set>

namespace dynrun::lowering {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

constexpr std::int64_t kLargestFold =
    4 << 20;  // bytes; a fold saves one operator and costs memory for as long as the segment lives
constexpr std::int64_t kMostCasts = std::int64_t{2} << 30;  // bytes of weights in a smaller type, which would be read whole to be cast on each run

class Folder {
 public:
  explicit Folder(Program& program) : program_(program) {
    for (ValueId id : program.graph.outputs) {
      if (id != kNoValue) keep_.insert(program.root(id));  // a result must be a new tensor each time
    }
    for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
      if (!program.writes(static_cast<std::int32_t>(i))) continue;
      visit_values(program.graph.nodes[i], [&](ValueId id) { keep_.insert(program.root(id)); });
    }
  }

  void run() {
    std::vector<Node> kept;
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      effect_ = program_.has_effect(static_cast<std::int32_t>(i));
      if (!fold(program_.graph.nodes[i])) kept.push_back(program_.graph.nodes[i]);
    }
    program_.graph.nodes = std::move(kept);
  }

 private:
  bool is_known(const Argument& argument, bool& any) {
    if (argument.is_list()) {
      return std::all_of(argument.items().begin(), argument.items().end(),
                         [&](const Argument& item) { return is_known(item, any); });
    }
    if (!argument.is_value() || argument.value() == kNoValue) return true;
    any = true;
    return keep_.count(program_.root(argument.value())) == 0 && program_.known(argument.value()).has_value();
  }

  void mark(const Argument& argument) {
    if (argument.is_value() && argument.value() != kNoValue) program_.mark_folded(argument.value());
    if (argument.is_list()) {
      for (const Argument& item : argument.items()) mark(item);
    }
  }

  bool fold(const Node& node) {
    if (effect_ || node.outputs.empty()) return false;
    std::int64_t bytes = 0;
    for (ValueId id : node.outputs) {
      if (id == kNoValue || keep_.count(id) != 0) return false;
      const auto& type = program_.graph.type_of(id);
      bytes += type.element_count() * static_cast<std::int64_t>(c10::elementSize(type.dtype));
    }
    bool any = false;
    for (const Argument& argument : node.arguments) {
      if (!is_known(argument, any)) return false;
    }
    const bool large = bytes > kLargestFold;
    if ((large && (!is_narrowing(node) || cast_bytes_ + bytes > kMostCasts)) || is_left_alone(node)) return false;
    std::vector<std::pair<ValueId, at::Tensor>> results;
    try {
      runtime::ModeGuard mode(node.mode);
      at::NoGradGuard no_grad;
      torch::jit::Stack stack;
      c10::IValue scratch;
      runtime::push_arguments(
          node, [&](ValueId id) -> const c10::IValue& { return scratch = *program_.known(id); }, stack);
      node.op.callBoxed(stack);
      runtime::take_results(node, stack, [&](ValueId id, c10::IValue result) { results.emplace_back(id, result.toTensor()); });
    } catch (const std::exception&) {
      return false;  // it raises when it runs, as it does in eager
    }
    for (const auto& [id, tensor] : results) {
      const auto& type = program_.graph.type_of(id);
      if (!tensor.defined() || tensor.sizes() != type.sizes || tensor.scalar_type() != type.dtype) return false;
      if (tensor.strides() != type.strides && type.element_count() > 1) return false;
    }
    if (large) cast_bytes_ += bytes;
    for (const Argument& argument : node.arguments) mark(argument);
    for (auto& [id, tensor] : results) {
      // A result that is its argument must not keep a parameter alive.
      bool owned = tensor.storage().use_count() == 1;
      program_.constants[id] =
          owned ? tensor : at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).copy_(tensor);
    }
    return true;
  }

  /// Uninitialised memory has no value to fold.
  static bool is_left_alone(const Node& node) { return node.op.operator_name().name.find("empty") != std::string::npos; }

  bool is_narrowing(const Node& node) const {
    if (node.op_name() != "aten::to.dtype" || !node.arguments[0].is_value()) return false;
    return c10::elementSize(program_.graph.type_of(node.outputs[0]).dtype) < c10::elementSize(program_.graph.type_of(node.arguments[0].value()).dtype);
  }

  Program& program_;
  std::int64_t cast_bytes_ = 0;
  std::unordered_set<ValueId> keep_;
  bool effect_ = false;
};

}  // namespace

void fold_constants(Program& program) {
  Folder(program).run();
}

}  // namespace dynrun::lowering
