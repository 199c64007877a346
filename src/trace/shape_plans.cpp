#include "trace/shape_plans.h"

#include "graph/operators.h"
#include "graph/shapes.h"
#include "graph/visit.h"
#include "guards/torch_python.h"
#include "runtime/dispatch.h"
#include "runtime/trial.h"
#include "trace/data_sizes.h"
#include "trace/operator_keys.h"
#include "trace/operator_recorder.h"

#include <ATen/ATen.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <limits>
#include <set>

namespace dynrun::trace {

using graph::ValueId;
using python::Ref;

namespace {

constexpr std::size_t kMostPlans = 320;
constexpr std::size_t kMostLowered = 160;
constexpr std::int64_t kByValues = std::numeric_limits<std::int64_t>::min();  // begins a key of computed numbers, where others are of those read

std::size_t at(std::int32_t id) { return static_cast<std::size_t>(id); }

}  // namespace

/// The graph on tensors without memory, as far as somebody asks.
class ShapeWalk final : public ValueSizes {
 public:
  /// `inputs`: one an input of the graph; a number may be undefined, and is then taken from the host values.
  ShapeWalk(const Segment& segment, const std::vector<at::Tensor>& inputs) : graph_(*segment.graph), values_(graph_.values.size()) {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordedKeys);
    for (const auto& [input, host] : segment.host_inputs) numbers_[graph_.inputs[at(input)].value] = host;
    for (std::size_t i = 0; i < inputs.size(); i++) {
      const ValueId value = graph_.inputs[i].value;
      const at::Tensor& tensor = inputs[i];
      inputs_[value] = tensor;
      if (numbers_.count(value) == 0) values_[at(value)] = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta).requires_grad(false));
      else if (tensor.defined()) values_[at(value)] = tensor;
    }
  }

  std::optional<std::int64_t> size(std::int32_t value, std::int32_t dimension, const std::vector<Ref>& hosts) override {
    if (at(value) >= values_.size() || !advance(hosts, value)) return std::nullopt;
    const at::Tensor tensor = values_[at(value)].toTensor();
    if (dimension >= tensor.dim()) return std::nullopt;
    const std::optional<std::int64_t> answer = dimension == kContent ? content(value, hosts) : tensor.size(dimension);
    if (answer) answers_.push_back(*answer);
    return answer;
  }

  bool finish(const std::vector<Ref>& hosts) { return advance(hosts, graph::kNoValue); }

  /// After `finish`.
  graph::TensorType type_of(ValueId id) const {
    graph::TensorType type = graph_.type_of(id);
    const c10::IValue& value = values_[at(id)];
    if (!value.isTensor() || numbers_.count(id) != 0 || type.unsized) return type;
    type.sizes = value.toTensor().sizes().vec();
    type.strides = value.toTensor().strides().vec();
    return type;
  }
  c10::ScalarType dtype_of(ValueId id) const { return values_[at(id)].isTensor() ? values_[at(id)].toTensor().scalar_type() : graph_.type_of(id).dtype; }
  std::vector<std::int64_t> take_answers() { return std::move(answers_); }

 private:
  /// Runs nodes until `value` is there, all of them for kNoValue. Nodes that wait for a number, which follows from the size of what
  /// comes later, are run when it is known.
  bool advance(const std::vector<Ref>& hosts, ValueId value) {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordedKeys);
    auto is_there = [&] { return value != graph::kNoValue && !values_[at(value)].isNone(); };
    try {
      if (!is_there()) run_waiting(hosts);
      for (; next_ < graph_.nodes.size() && !is_there(); next_++) {
        const graph::Node& node = graph_.nodes[next_];
        if (is_ready(node, hosts)) run(node, hosts);
        else waiting_.push_back(&node);
      }
      if (!is_there()) run_waiting(hosts);
    } catch (const std::exception&) {
      return false;
    }
    return value == graph::kNoValue ? waiting_.empty() : values_[at(value)].isTensor();
  }

  bool is_ready(const graph::Node& node, const std::vector<Ref>& hosts) const {
    bool ready = true;
    graph::visit_values(node, [&](ValueId id) {
      if (!values_[at(id)].isNone()) return;
      auto number = numbers_.find(id);
      ready = ready && number != numbers_.end() && at(number->second) < hosts.size() && hosts[at(number->second)].get() != nullptr;
    });
    return ready;
  }

  void run_waiting(const std::vector<Ref>& hosts) {
    for (bool any = true; any;) {
      any = false;
      for (auto node = waiting_.begin(); node != waiting_.end();) {
        if (!is_ready(**node, hosts)) {
          ++node;
          continue;
        }
        run(**node, hosts);
        node = waiting_.erase(node);
        any = true;
      }
    }
  }

  /// Nodes that a value needs, as they come.
  std::vector<const graph::Node*> nodes_for(ValueId wanted) const {
    std::set<ValueId> needed = {wanted};
    std::vector<const graph::Node*> nodes;
    for (auto node = graph_.nodes.rbegin(); node != graph_.nodes.rend(); ++node) {
      if (std::none_of(node->outputs.begin(), node->outputs.end(), [&](ValueId id) { return needed.count(id) != 0; })) continue;
      nodes.insert(nodes.begin(), &*node);
      graph::visit_values(*node, [&](ValueId id) { needed.insert(id); });
    }
    return nodes;
  }

  /// The number in a value that follows from sizes: what it needs is computed, which is little.
  std::optional<std::int64_t> content(ValueId wanted, const std::vector<Ref>& hosts) const {
    const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordedKeys);
    std::unordered_map<ValueId, c10::IValue> known;
    auto value = [&](ValueId id) -> const c10::IValue& {
      auto number = numbers_.find(id);
      if (known.count(id) == 0) known[id] = number != numbers_.end() ? number_tensor(hosts[at(number->second)].get()) : inputs_.at(id);
      return known.at(id);
    };
    try {
      const at::NoGradGuard no_grad;
      for (const graph::Node* node : nodes_for(wanted)) {
        torch::jit::Stack stack;
        runtime::push_arguments(*node, value, stack);
        node->op.callBoxed(stack);
        runtime::take_results(*node, stack, [&](ValueId id, c10::IValue result) { known[id] = std::move(result); });
      }
      return known.at(wanted).toTensor().item().toLong();
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  void run(const graph::Node& node, const std::vector<Ref>& hosts) {
    const std::function<const c10::IValue&(ValueId)> value = [&](ValueId id) -> const c10::IValue& {
      auto number = numbers_.find(id);
      if (number != numbers_.end() && values_[at(id)].isNone()) values_[at(id)] = number_tensor(hosts[at(number->second)].get());
      return values_[at(id)];
    };
    if (run_deciding(node, value)) return;
    std::vector<at::Tensor> given;
    for (ValueId id : node.outputs) given.push_back(id != graph::kNoValue && values_[at(id)].isTensor() ? values_[at(id)].toTensor() : at::Tensor());
    torch::jit::Stack stack;
    runtime::push_arguments(node, value, stack);
    if (!graph::infer(node, graph_, stack) && !runtime::try_out(node, graph_, value, stack)) throw std::invalid_argument("no shape function for " + node.op_name());
    runtime::take_results(node, stack, [&](ValueId id, c10::IValue result) { values_[at(id)] = std::move(result); });
    if (!node.op.hasTag(at::Tag::inplace_view)) require_same(node, given);
  }

  /// Of a node that gave an argument itself, which it may not do at these sizes, or would give other sizes (`out=`). `given`: what its
  /// results were before.
  void require_same(const graph::Node& node, const std::vector<at::Tensor>& given) const {
    for (std::size_t i = 0; i < given.size(); i++) {
      if (!given[i].defined()) continue;
      const at::Tensor now = values_[at(node.outputs[i])].toTensor();
      if (now.sizes() != given[i].sizes() || now.strides() != given[i].strides()) throw std::invalid_argument("not the argument itself any more");
    }
  }

  /// Of a node that decides sizes by data: any size will do, since nobody asks for it.
  bool run_deciding(const graph::Node& node, const ValueOf& value) {
    constexpr std::int64_t kCount = 5;
    if (node.outputs.size() == 1 && node.outputs[0] != graph::kNoValue && graph_.type_of(node.outputs[0]).number) {
      values_[at(node.outputs[0])] = wrapped_number(recorded_number(node));  // any number will do
      return true;
    }
    if (!decides_sizes(graph_, node)) return false;
    std::vector<at::Tensor> results = decided_results(graph_, node, value, kCount);
    for (std::size_t i = 0; i < node.outputs.size(); i++) {
      const ValueId id = node.outputs[i];
      if (id == graph::kNoValue) continue;
      const graph::TensorType& type = graph_.type_of(id);
      values_[at(id)] = i < results.size() ? results[i] : at::empty_strided(type.sizes, type.strides, at::TensorOptions().dtype(type.dtype).device(at::kMeta));
    }
    return true;
  }

  const graph::Graph& graph_;
  std::vector<c10::IValue> values_;
  std::unordered_map<ValueId, at::Tensor> inputs_;
  std::unordered_map<ValueId, HostId> numbers_;
  std::size_t next_ = 0;
  std::list<const graph::Node*> waiting_;  // in order
  std::vector<std::int64_t> answers_;
};

namespace {

/// The answers of a plan, in the order in which they are asked for.
class KnownSizes final : public ValueSizes {
 public:
  explicit KnownSizes(const std::vector<std::int64_t>& answers) : answers_(answers) {}
  std::optional<std::int64_t> size(std::int32_t, std::int32_t, const std::vector<Ref>&) override {
    return next_ < answers_.size() ? std::optional(answers_[next_++]) : std::nullopt;
  }

 private:
  const std::vector<std::int64_t>& answers_;
  std::size_t next_ = 0;
};

bool all_values(const Segment& segment, const ShapeWalk& walk, const std::function<bool(const graph::TensorType&, const graph::TensorType&)>& holds) {
  for (std::size_t i = 0; i < segment.graph->values.size(); i++) {
    const graph::Value& value = segment.graph->values[i];
    const auto id = static_cast<ValueId>(i);
    if (!value.is_tensor() || value.tensor().number || value.tensor().unsized) continue;
    if (walk.dtype_of(id) != value.tensor().dtype || !holds(walk.type_of(id), value.tensor())) return false;
  }
  return true;
}

}  // namespace

ShapePlans::ShapePlans(const HostProgram& host, std::vector<guards::SourceId> open, std::vector<HostId> sized, PlanLayouts layouts)
    : open_(std::move(open)), sized_(std::move(sized)), layouts_(std::move(layouts)) {
  host.visit_parts(sized_, [&](HostId, const HostStep& step) {
    if (step.kind == HostKind::kSource) sized_by_.insert(step.index);
    drawn_ = drawn_ || step.kind == HostKind::kGenerator;
    return true;
  });
}

void ShapePlans::add_open_sizes(Key& key, const std::vector<PyObject*>& registers) const {
  for (guards::SourceId source : open_) {
    const auto sizes = guards::tensor_of(registers[at(source)]).sizes();
    key.insert(key.end(), sizes.begin(), sizes.end());
  }
}

/// The open sizes and the integers read from outside. Empty where sizes follow from anything else.
std::optional<ShapePlans::Key> ShapePlans::key(const std::vector<PyObject*>& registers) const {
  if (drawn_) return std::nullopt;
  Key key;
  add_open_sizes(key, registers);
  for (guards::SourceId source : sized_by_) {
    int overflow = 0;
    PyObject* number = registers[at(source)];
    if (number == nullptr || !PyLong_CheckExact(number)) return std::nullopt;
    key.push_back(PyLong_AsLongLongAndOverflow(number, &overflow));
    if (overflow != 0) return std::nullopt;
  }
  return key;
}

void ShapePlans::keep(Key key, std::shared_ptr<ShapePlan> plan) {
  if (plans_.size() >= kMostPlans) {
    plans_.erase(recent_.back());
    recent_.pop_back();
  }
  for (std::size_t i = 0; i < key.size(); i++) {
    if (key[i] <= 1) plan->small.emplace(i, key[i]);
  }
  recent_.push_front(key);
  plans_.insert_or_assign(std::move(key), std::pair(std::move(plan), recent_.begin()));
}

std::shared_ptr<ShapePlan> ShapePlans::known_plan(const Key& key) {
  auto known = plans_.find(key);
  if (known == plans_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, known->second.second);
  return known->second.first;
}

/// After the host program has run with this walk.
std::shared_ptr<ShapePlan> ShapePlans::make_plan(const Segment& segment, ShapeWalk& walk, const std::vector<Ref>& hosts) {
  auto plan = std::make_shared<ShapePlan>();
  plan->fits = walk.finish(hosts) && all_values(segment, walk, [](const graph::TensorType&, const graph::TensorType&) { return true; }) && layouts_.hold(*segment.graph, [&](ValueId id) { return walk.type_of(id); });
  if (plan->fits) {
    for (ValueId id : segment.graph->outputs) plan->output_types.push_back(walk.type_of(id));
  }
  plan->answers = walk.take_answers();
  return plan;
}

std::shared_ptr<ShapePlan> ShapePlans::find(const Segment& segment, const std::vector<PyObject*>& registers, std::vector<Ref>& hosts) {
  std::optional<Key> wanted = key(registers);
  if (!wanted) return find_by_values(segment, registers, hosts);
  if (std::shared_ptr<ShapePlan> plan = known_plan(*wanted)) {
    if (!plan->fits) return nullptr;
    KnownSizes sizes(plan->answers);
    return segment.host.run(registers, hosts, &sizes) ? plan : nullptr;
  }
  ShapeWalk walk(segment, outside_inputs(segment, registers));
  if (!segment.host.run(registers, hosts, &walk)) return nullptr;
  std::shared_ptr<ShapePlan> plan = make_plan(segment, walk, hosts);
  keep(std::move(*wanted), plan);
  return plan->fits ? plan : nullptr;
}

/// Where sizes are drawn at random, or follow from other than integers: only the host program tells them.
std::shared_ptr<ShapePlan> ShapePlans::find_by_values(const Segment& segment, const std::vector<PyObject*>& registers, std::vector<Ref>& hosts) {
  ShapeWalk walk(segment, outside_inputs(segment, registers));
  if (!segment.host.run(registers, hosts, &walk)) return nullptr;
  Key key = {kByValues};
  add_open_sizes(key, registers);
  for (HostId id : sized_) {
    int overflow = 0;
    PyObject* number = hosts[at(id)].get();
    if (number == nullptr || !PyLong_Check(number)) return nullptr;
    key.push_back(PyLong_AsLongLongAndOverflow(number, &overflow));
    if (overflow != 0) return nullptr;
  }
  std::shared_ptr<ShapePlan> plan = known_plan(key);
  if (plan == nullptr) {
    plan = make_plan(segment, walk, hosts);
    keep(std::move(key), plan);
  }
  return plan->fits ? plan : nullptr;
}

guards::Miss ShapePlans::explain_miss(const Segment& segment, const std::vector<PyObject*>& registers) const {
  ShapeWalk walk(segment, outside_inputs(segment, registers));
  guards::Miss miss = segment.host.explain_miss(registers, segment.guards, &walk);
  if (miss.guard != kNoMiss) return miss;
  return {"sizes of what is computed", "as many dimensions, the same ones of one element", "others"};
}

void ShapePlans::note_lowered(ShapePlan& plan) {
  std::erase_if(lowered_, [](const auto& one) { return one.expired(); });
  lowered_.insert(lowered_.begin(), plan.weak_from_this());
  if (lowered_.size() <= kMostLowered) return;
  // The one that was used least; its sizes have to come back to be worth it again.
  auto least = std::min_element(lowered_.begin() + 1, lowered_.end(), [](const auto& a, const auto& b) { return a.lock()->runs < b.lock()->runs; });
  std::shared_ptr<ShapePlan> dropped = least->lock();
  dropped->code = Code();
  dropped->graph = nullptr;
  dropped->runs = 0;
  lowered_.erase(least);
}

namespace {

bool is_sized(const c10::Type& type) {
  return type.kind() == c10::TypeKind::IntType || type.kind() == c10::TypeKind::SymIntType;
}

/// Where a constant may stand for a number: as a size, as a Scalar, and as a tensor, which is then that number.
bool takes_constant(const c10::Type& type) {
  return is_sized(type) || type.kind() == c10::TypeKind::NumberType || type.kind() == c10::TypeKind::TensorType;
}

/// Numbers become constants.
void settle_numbers(graph::Node& node, const std::unordered_map<ValueId, c10::Scalar>& numbers) {
  const auto& formals = node.op.schema().arguments();
  for (std::size_t i = 0; i < node.arguments.size(); i++) {
    graph::Argument& argument = node.arguments[i];
    c10::TypePtr type = formals[i].real_type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    if (argument.is_value() && takes_constant(*type)) {
      auto number = numbers.find(argument.value());
      if (number != numbers.end() && (number->second.isIntegral(false) || !is_sized(*type))) argument = graph::Argument::constant(number->second);
    }
    auto list = type->cast<c10::ListType>();
    if (!argument.is_list() || !list || !is_sized(*list->getElementType())) continue;
    std::vector<std::int64_t> items;
    for (const graph::Argument& item : argument.items()) {
      if (!item.is_value()) items.push_back(item.constant().toInt());
      else if (auto number = numbers.find(item.value()); number != numbers.end() && number->second.isIntegral(false)) items.push_back(number->second.toLong());
    }
    if (items.size() != argument.items().size()) continue;
    argument = graph::Argument::constant(c10::IValue(std::move(items)));
  }
}

}  // namespace

std::shared_ptr<graph::Graph> ShapePlans::with_numbers(const Segment& segment, const std::vector<at::Tensor>& inputs, const std::vector<HostId>& sized) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(kRecordedKeys);
  auto graph = std::make_shared<graph::Graph>(*segment.graph);
  std::unordered_map<ValueId, c10::Scalar> numbers;
  for (const auto& [input, host] : segment.host_inputs) {
    const at::Tensor& number = inputs[at(input)];
    const bool known = std::find(sized.begin(), sized.end(), host) != sized.end();
    if (known && (number.scalar_type() == at::kLong || number.scalar_type() == at::kDouble)) numbers[graph->inputs[at(input)].value] = number.item();
  }
  for (graph::Node& node : graph->nodes) settle_numbers(node, numbers);
  return graph;
}

/// Whether host values are the same wherever these numbers and the sizes of the open tensors are.
bool ShapePlans::follow_from(const HostProgram& host, const std::vector<HostId>& ids, const Sources& sources) {
  bool follow = true;
  host.visit_parts(ids, [&](HostId, const HostStep& step) {
    switch (step.kind) {
      case HostKind::kConstant:
      case HostKind::kSize:
      case HostKind::kValueSize:
      case HostKind::kBinary:
      case HostKind::kNegative:
      case HostKind::kInvert:
      case HostKind::kCall: break;
      case HostKind::kSource: follow = follow && sources.count(step.index) != 0; break;
      default: follow = false;
    }
    return follow;
  });
  return follow;
}

/// The host values that one plan knows: those that decide sizes, and indices and factors that follow from the same numbers.
std::vector<HostId> ShapePlans::settled(const Segment& segment) const {
  std::vector<HostId> known = sized_;
  for (const auto& [input, host] : segment.host_inputs) {
    if (follow_from(segment.host, {host}, sized_by_)) known.push_back(host);
  }
  return known;
}

std::shared_ptr<graph::Graph> ShapePlans::concrete(const Segment& segment, const std::vector<at::Tensor>& inputs) const {
  ShapeWalk walk(segment, inputs);
  if (!walk.finish({})) return nullptr;
  std::shared_ptr<graph::Graph> graph = with_numbers(segment, inputs, settled(segment));
  for (std::size_t i = 0; i < graph->values.size(); i++) {
    if (graph->values[i].is_tensor()) graph->values[i].type = walk.type_of(static_cast<ValueId>(i));
  }
  return graph;
}

bool may_have_plans(const Segment& segment, const std::vector<at::Tensor>& inputs) {
  ShapeWalk walk(segment, inputs);
  if (!walk.finish({})) return false;
  return all_values(segment, walk, [](const graph::TensorType& now, const graph::TensorType& recorded) {
    return !recorded.lazy && now.sizes == recorded.sizes && now.strides == recorded.strides;
  });
}

}  // namespace dynrun::trace
