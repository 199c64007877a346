#pragma once
// Records graphs by running operators: a small recorder for tests.

#include "graph/graph.h"
#include "lowering/lower.h"
#include "lowering/shared.h"
#include "runtime/dispatch.h"

#include <ATen/ATen.h>
#include <catch2/catch.hpp>

#include <string>

namespace dynrun::test {

using graph::Argument;
using graph::ValueId;

class GraphBuilder {
 public:
  GraphBuilder() : graph_(std::make_shared<graph::Graph>()) {}

  ValueId input(at::Tensor tensor, bool parameter = false) {
    auto kind = parameter ? graph::InputKind::kParameter : graph::InputKind::kActivation;
    ValueId id = graph_->add_input(graph::TensorType::of(tensor), kind, "in" + std::to_string(inputs_.size()));
    inputs_.push_back(same_layout(tensor));
    remember(id, same_layout(tensor));
    return id;
  }

  /// Runs `name` on the recorded values; arguments that are left out take the schema's defaults. Gives the outputs.
  std::vector<ValueId> call(const std::string& name, std::vector<Argument> arguments) {
    std::size_t dot = name.find('.');
    auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.substr(0, dot).c_str(),
                                                             dot == name.npos ? "" : name.substr(dot + 1).c_str());
    const auto& formals = op.schema().arguments();
    for (std::size_t i = arguments.size(); i < formals.size(); ++i) {
      arguments.push_back(Argument::constant(formals[i].default_value().value_or(c10::IValue())));
    }
    graph::Node node{op, std::move(arguments), {}, {}, {}, -1};
    torch::jit::Stack stack;
    c10::IValue scratch;
    at::NoGradGuard no_grad;
    runtime::push_arguments(
        node, [&](ValueId id) -> const c10::IValue& { return scratch = live_.at(static_cast<std::size_t>(id)); }, stack);
    op.callBoxed(stack);
    for (const c10::IValue& result : stack) {
      if (!result.isTensorList()) {
        node.outputs.push_back(note(result.toTensor()));
        node.return_lengths.push_back(-1);
        continue;
      }
      node.return_lengths.push_back(static_cast<std::int32_t>(result.toTensorVector().size()));
      for (const at::Tensor& tensor : result.toTensorVector()) node.outputs.push_back(note(tensor));
    }
    graph_->nodes.push_back(node);
    return node.outputs;
  }
  ValueId one(const std::string& name, std::vector<Argument> arguments) { return call(name, std::move(arguments)).at(0); }

  void output(ValueId id) { graph_->outputs.push_back(id); }
  const at::Tensor& live(ValueId id) const { return live_.at(static_cast<std::size_t>(id)); }
  std::shared_ptr<graph::Graph> graph() const { return graph_; }
  const std::vector<at::Tensor>& inputs() const { return inputs_; }

 private:
  static at::Tensor same_layout(const at::Tensor& tensor) {
    for (std::int64_t i = 0; i < tensor.dim(); ++i) {
      if (tensor.stride(i) == 0 && tensor.size(i) > 1) return tensor;
    }
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).copy_(tensor);
  }
  void remember(ValueId id, at::Tensor tensor) {
    live_.resize(static_cast<std::size_t>(id) + 1);
    live_[static_cast<std::size_t>(id)] = std::move(tensor);
  }
  ValueId note(const at::Tensor& tensor) {
    if (!tensor.defined()) return graph::kNoValue;
    for (std::size_t i = 0; i < live_.size(); ++i) {
      if (live_[i].is_same(tensor)) return static_cast<ValueId>(i);
    }
    ValueId id = graph_->add_value({graph::TensorType::of(tensor), "v" + std::to_string(live_.size())});
    remember(id, tensor);
    return id;
  }

  std::shared_ptr<graph::Graph> graph_;
  std::vector<at::Tensor> inputs_;
  std::vector<at::Tensor> live_;
};

inline Argument ref(ValueId id) {
  return Argument::reference(id);
}
inline Argument val(c10::IValue value) {
  return Argument::constant(std::move(value));
}
inline Argument ints(std::vector<std::int64_t> values) {
  return Argument::constant(c10::List<std::int64_t>(values));
}
inline Argument refs(std::vector<ValueId> ids) {
  std::vector<Argument> items;
  for (ValueId id : ids) items.push_back(ref(id));
  return Argument::list(std::move(items));
}

/// torch.testing.assert_close's tolerances.
inline std::pair<double, double> tolerance(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Half:
      return {1e-3, 1e-5};
    case c10::ScalarType::BFloat16:
      return {1.6e-2, 1e-5};
    case c10::ScalarType::Float:
      return {1.3e-6, 1e-5};
    case c10::ScalarType::Double:
      return {1e-7, 1e-7};
    default:
      return {0, 0};
  }
}

inline std::string describe_difference(const at::Tensor& got, const at::Tensor& expected, double slack = 1) {
  if (got.sizes() != expected.sizes()) return "sizes differ";
  if (got.strides() != expected.strides()) return "strides differ";
  if (got.dtype() != expected.dtype()) return "dtypes differ";
  auto [relative, absolute] = tolerance(got.scalar_type());
  at::Tensor close = at::isclose(got.to(at::kDouble), expected.to(at::kDouble), relative * slack, absolute * slack, true);
  if (close.all().item<bool>()) return "";
  std::int64_t worst = close.flatten().to(at::kInt).argmin().item<std::int64_t>();
  return "values differ at " + std::to_string(worst) + ": got " + std::to_string(got.flatten()[worst].item<double>()) +
         ", eager " + std::to_string(expected.flatten()[worst].item<double>());
}

/// Two inputs or outputs that share storage in eager do so here, at the same offset.
inline std::string describe_aliasing(const std::vector<at::Tensor>& got, const std::vector<at::Tensor>& expected) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (got[i].is_same(got[j]) != expected[i].is_same(expected[j]))
        return "identity of " + std::to_string(i) + " and " + std::to_string(j);
      if (got[i].is_alias_of(got[j]) != expected[i].is_alias_of(expected[j]))
        return "aliasing of " + std::to_string(i) + " and " + std::to_string(j);
    }
  }
  return "";
}

struct Checked {
  std::string problem;  // empty: lowered and replayed agree, inputs and aliasing included
  int kernels = 0;
  int externs = 0;
};

/// Lowers the graph, runs it twice and compares with the replayer; `slack` widens the tolerances, for errors that add up.
inline Checked check(const GraphBuilder& builder, double slack = 1, bool fold = true, lowering::Shared* shared = nullptr,
                     lowering::GpuTrial gpu_trial = lowering::GpuTrial::kNone) {
  Checked checked;
  if (auto problem = graph::verify(*builder.graph())) return {"verify: " + *problem, 0, 0};
  auto copies = [&] {
    std::vector<at::Tensor> out;
    for (const at::Tensor& input : builder.inputs()) {
      at::Tensor copy = at::empty_strided(input.sizes(), input.strides(), input.options());
      bool expanded = false;
      for (std::int64_t i = 0; i < input.dim(); ++i) expanded = expanded || (input.stride(i) == 0 && input.size(i) > 1);
      out.push_back(expanded ? input : copy.copy_(input));
    }
    return out;
  };
  lowering::Options options;
  options.fold_parameters = fold;
  options.shared = shared;
  options.gpu_trial = gpu_trial;
  // Weights are other ones in each graph.
  static std::uint64_t next_content = 1;
  for (std::size_t i = 0; i < builder.inputs().size(); ++i) options.contents.push_back(next_content++);
  std::string failure;
  // A dump makes every pass verify what it gives; a few are enough.
  if (builder.graph()->nodes.size() % 4 == 0) {
    options.dump = [&](const std::string& stage, const std::string& text) {
      if (stage == "graph lowering failed") failure = text;
    };
  }
  std::vector<at::Tensor> examples = copies();
  lowering::Lowered lowered = lowering::lower(builder.graph(), examples, options);
  if (!failure.empty()) return {"lowering failed: " + failure, 0, 0};
  checked.kernels = lowered.executable->kernel_count();
  checked.externs = lowered.executable->extern_count();
  auto replayer = runtime::make_replayer(builder.graph());
  for (int round = 0; round < 2 && checked.problem.empty(); ++round) {
    std::vector<at::Tensor> a = copies(), b = copies();
    // Parameters are the tensors that lowering saw.
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (builder.graph()->inputs[i].kind == graph::InputKind::kParameter) b[i] = examples[i];
    }
    std::vector<at::Tensor> expected = replayer->run(a), got = lowered.executable->run(b);
    if (got.size() != expected.size()) return {"number of outputs", checked.kernels, checked.externs};
    for (std::size_t i = 0; i < got.size() && checked.problem.empty(); ++i) {
      checked.problem = describe_difference(got[i], expected[i], slack);
      if (!checked.problem.empty()) checked.problem = "output " + std::to_string(i) + ": " + checked.problem;
    }
    for (std::size_t i = 0; i < a.size() && checked.problem.empty(); ++i) {
      checked.problem = describe_difference(b[i], a[i], slack);
      if (!checked.problem.empty()) checked.problem = "input " + std::to_string(i) + ": " + checked.problem;
    }
    expected.insert(expected.end(), a.begin(), a.end());
    got.insert(got.end(), b.begin(), b.end());
    if (checked.problem.empty()) checked.problem = describe_aliasing(got, expected);
  }
  return checked;
}

}  // namespace dynrun::test
