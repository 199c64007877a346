#include "lowering/parts_lowering.h"

namespace dynrun::lowering {

PartsLowering::PartsLowering(const graph::Graph& graph, const std::vector<GraphPart>& parts, c10::ArrayRef<at::Tensor> examples, const Options& options)
    : graph_(graph), parts_(parts), examples_(examples), options_(options) {
  for (std::size_t i = 0; i < graph.inputs.size(); i++) input_of_.emplace(graph.inputs[i].value, i);
}

void PartsLowering::compile() {
  const GraphPart& part = next();
  Options options = options_;
  options.contents.clear();
  for (const graph::Input& input : part->inputs) {
    const auto known = input_of_.find(input.value);
    if (options.shared != nullptr) options.contents.push_back(known == input_of_.end() ? 0 : options_.contents[known->second]);
  }
  Lowered lowered = lower(part, examples_of(*part), options);
  for (int input : lowered.folded_inputs) folded_.insert(static_cast<int>(input_of_.at(part->inputs[static_cast<std::size_t>(input)].value)));
  guessed_ = guessed_ || lowered.guessed;
  executables_.push_back(std::move(lowered.executable));
}

void PartsLowering::replay() { executables_.push_back(runtime::make_replayer(next())); }

void PartsLowering::run_on_examples() {
  const GraphPart& part = parts_[executables_.size() - 1];
  try {
    const std::vector<at::Tensor> made = executables_.back()->run(examples_of(*part));
    for (std::size_t i = 0; i < made.size(); i++) made_.emplace(part->outputs[i], made[i]);
  } catch (const std::exception&) {  // it is with other numbers that it will be run
  }
}

std::vector<at::Tensor> PartsLowering::examples_of(const graph::Graph& part) const {
  std::vector<at::Tensor> taken;
  for (const graph::Input& input : part.inputs) taken.push_back(example_of(input.value, part));
  return taken;
}

Lowered PartsLowering::join() {
  Lowered lowered{join_parts(graph_, parts_, std::move(executables_)), {folded_.begin(), folded_.end()}};
  lowered.guessed = guessed_;
  return lowered;
}

/// An input of the whole, or what a part made; else a tensor like it.
at::Tensor PartsLowering::example_of(graph::ValueId id, const graph::Graph& part) const {
  if (const auto known = input_of_.find(id); known != input_of_.end()) return examples_[known->second];
  if (const auto made = made_.find(id); made != made_.end()) return made->second;
  const graph::TensorType& type = part.type_of(id);
  return at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype).device(type.device));
}

}  // namespace dynrun::lowering
