#include "runtime/dispatch.h"
#include "runtime/executable.h"
#include "runtime/undo_log.h"

#include "graph/operators.h"

#include <ATen/ATen.h>

namespace dynrun::runtime {
namespace {

using graph::Argument;
using graph::kNoValue;
using graph::Node;
using graph::ValueId;

class Replayer final : public Executable {
 public:
  Replayer(std::shared_ptr<const graph::Graph> graph, bool undoes) : graph_(std::move(graph)), undoes_(undoes), dead_after_(graph_->nodes.size()) {
    plan_lifetimes();
  }

  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs) override {
    if (!undoes_) return run(inputs, nullptr);
    UndoLog log(inputs);
    try {
      return run(inputs, &log);
    } catch (...) {
      log.undo();
      throw;
    }
  }

  bool replays_operators() const override { return true; }
  bool undoes() const override { return undoes_; }
  int extern_count() const override { return static_cast<int>(graph_->nodes.size()); }

 private:
  std::vector<at::Tensor> run(c10::ArrayRef<at::Tensor> inputs, UndoLog* log) {
    TORCH_CHECK(inputs.size() == graph_->inputs.size(), "a graph of ", graph_->inputs.size(), " inputs was given ",
                inputs.size());
    std::vector<c10::IValue> values(graph_->values.size());
    for (std::size_t i = 0; i < inputs.size(); ++i) values[index(graph_->inputs[i].value)] = inputs[i];
    const graph::Mode* mode = nullptr;
    std::optional<ModeGuard> guard;
    torch::jit::Stack stack;
    std::function<const c10::IValue&(ValueId)> value = [&](ValueId id) -> const c10::IValue& { return values[index(id)]; };
    std::function<void(ValueId, c10::IValue)> store = [&](ValueId id, c10::IValue result) {
      values[index(id)] = std::move(result);
    };
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
      const Node& node = graph_->nodes[i];
      if (mode == nullptr || !(*mode == node.mode)) {
        guard.reset();
        guard.emplace(node.mode);
        mode = &node.mode;
      }
      push_arguments(node, value, stack);
      if (log != nullptr && !(i + 1 == graph_->nodes.size() && raises_first(node))) log->before(node, stack);
      call(node, stack);
      take_results(node, stack, store);
      for (ValueId id : dead_after_[i]) values[index(id)] = c10::IValue();
    }
    guard.reset();
    return take_outputs(values);
  }

  /// Whether an operator that raises has written nothing.
  static bool raises_first(const Node& node) {
    const std::string_view name = graph::base_name(node.op);
    return name == "copy" || name == "fill" || name == "zero";
  }

  static std::size_t index(ValueId id) { return static_cast<std::size_t>(id); }

  template <typename Visit>
  static void visit_values(const Argument& argument, const Visit& visit) {
    if (argument.is_value()) {
      if (argument.value() != kNoValue) visit(argument.value());
    } else if (argument.is_list()) {
      for (const Argument& item : argument.items()) visit_values(item, visit);
    }
  }

  void plan_lifetimes() {
    std::vector<std::int64_t> last(graph_->values.size(), -1);
    for (std::size_t i = 0; i < graph_->nodes.size(); ++i) {
      auto touch = [&](ValueId id) { last[index(id)] = static_cast<std::int64_t>(i); };
      for (const Argument& argument : graph_->nodes[i].arguments) visit_values(argument, touch);
      for (ValueId id : graph_->nodes[i].outputs) {
        if (id != kNoValue) touch(id);
      }
    }
    for (ValueId id : graph_->outputs) {
      if (id != kNoValue) last[index(id)] = -1;
    }
    for (std::size_t id = 0; id < last.size(); ++id) {
      if (last[id] >= 0) dead_after_[static_cast<std::size_t>(last[id])].push_back(static_cast<ValueId>(id));
    }
  }

  std::vector<at::Tensor> take_outputs(const std::vector<c10::IValue>& values) const {
    std::vector<at::Tensor> outputs;
    outputs.reserve(graph_->outputs.size());
    for (ValueId id : graph_->outputs) {
      if (id == kNoValue || values[index(id)].isNone()) {
        outputs.emplace_back();
      } else if (values[index(id)].isTensor()) {
        outputs.push_back(values[index(id)].toTensor());
      } else {
        outputs.push_back(at::scalar_tensor(values[index(id)].toScalar(), host_dtype(id)));
      }
    }
    return outputs;
  }

  /// A host value that is handed out travels in a tensor without dimensions.
  c10::ScalarType host_dtype(ValueId id) const {
    switch (std::get<graph::HostType>(graph_->values[index(id)].type)) {
      case graph::HostType::kInt:
        return c10::kLong;
      case graph::HostType::kFloat:
        return c10::kDouble;
      case graph::HostType::kBool:
        return c10::kBool;
    }
    return c10::kLong;
  }

  std::shared_ptr<const graph::Graph> graph_;
  bool undoes_;
  std::vector<std::vector<ValueId>> dead_after_;  // by node: what no later node reads
};

}  // namespace

std::unique_ptr<Executable> make_replayer(std::shared_ptr<const graph::Graph> graph) {
  return std::make_unique<Replayer>(std::move(graph), false);
}

std::unique_ptr<Executable> make_undoing_replayer(std::shared_ptr<const graph::Graph> graph) {
  return std::make_unique<Replayer>(std::move(graph), true);
}

}  // namespace dynrun::runtime
