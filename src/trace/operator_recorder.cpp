#include "trace/operator_recorder.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "guards/unversioned_operators.h"
#include "trace/autocast.h"
#include "trace/operator_traits.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/jit_type.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <fmt/format.h>

#include <set>

namespace dynrun::trace {

namespace {

/// Layouts and wrappers that a node cannot stand for.
bool is_plain(const at::Tensor& tensor) {
  if (tensor.layout() != c10::kStrided || tensor.is_quantized() || tensor.is_mkldnn() || tensor.is_nested() || !tensor.has_storage()) return false;
  constexpr c10::DispatchKeySet kWrappers({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot,
                                           c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper,
                                           c10::DispatchKey::Functionalize});
  return !tensor.key_set().has_any(kWrappers);
}

/// Operators that only hand a number to Python.
bool looks_at_data(const c10::OperatorHandle& op) {
  const std::string& name = op.schema().name();
  return name == "aten::is_nonzero" || name == "aten::item" || name == "aten::_local_scalar_dense" || name == "aten::equal" || name == "aten::allclose";
}

/// In-place views: they change how their tensor lies in its memory, not the memory.
bool changes_only_view(const std::string& name) {
  static const std::set<std::string> names = {"aten::squeeze_", "aten::unsqueeze_", "aten::transpose_", "aten::t_", "aten::swapaxes_",
                                              "aten::swapdims_", "aten::as_strided_"};
  return names.count(name) != 0;
}

/// Operators that decide by the data how large their result is, and whose result is new memory.
bool gives_unsized(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  auto is_mask = [&](std::size_t at) {
    auto list = stack[first + at].toListRef();
    return std::any_of(list.begin(), list.end(), [](const c10::IValue& index) {
      return index.isTensor() && index.toTensor().defined() && graph::is_mask(index.toTensor().scalar_type());
    });
  };
  auto number = [&](std::size_t at) { return stack[first + at].isInt() ? std::optional(stack[first + at].toInt()) : std::nullopt; };
  return decides_sizes(op, is_mask, number);
}

bool data_dependent(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  const std::string& name = op.schema().name();
  static const std::set<std::string> always = {
      "aten::item", "aten::_local_scalar_dense", "aten::is_nonzero", "aten::equal", "aten::allclose",
      "aten::_ctc_loss", "aten::to_sparse",
      "aten::_assert_async", "aten::_sparse_coo_tensor_unsafe", "aten::is_set_to", "aten::set_",
      "aten::resize_", "aten::resize_as_", "aten::set_data", "aten::_backward", "aten::retain_grad", "aten::requires_grad_",
      "aten::rename_", "aten::rename", "aten::detach_", "aten::data", "aten::record_stream"};
  if (always.count(name)) return true;
  if (gives_unsized(op, stack, first)) return op.schema().is_mutable();
  if (name == "aten::tensor_split" && op.schema().overload_name() == "tensor_indices_or_sections") return true;
  if (name == "aten::one_hot" || name == "aten::repeat_interleave" || name == "aten::index") return false;
  return op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output) ||
         (op.hasTag(at::Tag::inplace_view) && !changes_only_view(name));
}

}  // namespace

OperatorRecorder::OperatorRecorder() : graph_(std::make_shared<graph::Graph>()) {}

OperatorRecorder::Mark OperatorRecorder::mark() const {
  return {graph_->nodes.size(), graph_->values.size(), graph_->inputs.size(), checks_.size(), proofs_.size(), wrote_outside_};
}

void OperatorRecorder::rewind(const Mark& mark) {
  graph_->nodes.erase(graph_->nodes.begin() + static_cast<std::ptrdiff_t>(mark.nodes), graph_->nodes.end());
  for (std::size_t i = mark.values; i < known_order_.size(); i++) {
    auto at = known_.find(known_order_[i]);
    if (at != known_.end() && at->second.value == static_cast<graph::ValueId>(i)) known_.erase(at);
  }
  known_order_.resize(mark.values);
  graph_->values.resize(mark.values);
  for (auto* values : {&constant_values_, &size_values_, &settled_contents_, &casts_}) {
    std::erase_if(*values, [&](graph::ValueId id) { return static_cast<std::size_t>(id) >= mark.values; });
  }
  std::erase_if(kept_casts_, [&](const KeptCast& kept) { return static_cast<std::size_t>(kept.cast) >= mark.values; });
  data_sizes_.rewind(mark.values);
  std::erase_if(numbers_, [&](const auto& number) { return static_cast<std::size_t>(number.second) >= mark.values; });
  graph_->inputs.resize(mark.inputs);
  std::erase_if(host_inputs_, [&](const auto& host) { return static_cast<std::size_t>(host.first) >= mark.values; });
  std::erase_if(host_numbers_, [&](const auto& host) { return static_cast<std::size_t>(host.first) >= mark.values; });
  while (!constants_.empty() && static_cast<std::size_t>(constants_.back().first) >= mark.values) constants_.pop_back();
  wrote_outside_ = mark.wrote_outside;
  checks_.resize(mark.checks);
  proofs_.resize(mark.proofs);
  std::erase_if(written_at_, [&](const auto& written) { return written.second >= mark.nodes; });
}

graph::ValueId OperatorRecorder::find(const at::Tensor& tensor) const {
  auto at = known_.find(tensor.unsafeGetTensorImpl());
  return at == known_.end() ? graph::kNoValue : at->second.value;
}

at::Tensor OperatorRecorder::tensor(graph::ValueId id) const {
  auto index = static_cast<std::size_t>(id);
  auto at = index < known_order_.size() ? known_.find(known_order_[index]) : known_.end();
  if (at == known_.end() || at->second.value != id) return {};
  auto locked = at->second.pin.lock();
  return locked ? at::Tensor(std::move(locked)) : at::Tensor();
}

graph::ValueId OperatorRecorder::add_input(const at::Tensor& tensor, graph::InputKind kind, std::string name) {
  if (tensor.has_storage()) outside_storages_.insert(tensor.storage().unsafeGetStorageImpl());
  graph::ValueId id = graph_->add_input(graph::TensorType::of(tensor), kind, std::move(name));
  known_order_.resize(graph_->values.size());
  known_order_[static_cast<std::size_t>(id)] = tensor.unsafeGetTensorImpl();
  known_.insert_or_assign(tensor.unsafeGetTensorImpl(), Known{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), id});
  return id;
}

void OperatorRecorder::refuse(Refusal why, const std::string& name) {
  if (refusal_ != Refusal::kNone) return;
  refusal_ = why;
  refused_operator_ = name;
}

void OperatorRecorder::clear_refusal() {
  refusal_ = Refusal::kNone;
  refused_operator_.clear();
}

void OperatorRecorder::bring_in_first(const torch::jit::Stack& stack, std::size_t first) {
  if (!is_weight) return;
  auto bring = [&](auto chosen) {
    for (const at::Tensor& tensor : tensors_of(stack, first)) {
      if (tensor.defined() && find(tensor) == graph::kNoValue && chosen(tensor)) resolve_outside(tensor);
    }
  };
  bring([&](const at::Tensor& tensor) { return asked.count(tensor.unsafeGetTensorImpl()) != 0; });
  bring(is_weight);
}

bool OperatorRecorder::tensor_argument(const at::Tensor& tensor, graph::Argument& argument) {
  if (!tensor.defined()) {
    argument = graph::Argument::constant(c10::IValue());
    return true;
  }
  graph::ValueId id = find(tensor);
  if (id == graph::kNoValue && tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    // A Python number that the binding wrapped: the number itself is the argument.
    argument = graph::Argument::constant(tensor.item());
    return true;
  }
  if (id == graph::kNoValue && record_kept_cast(tensor)) id = find(tensor);
  if (id == graph::kNoValue && resolve_outside) id = resolve_outside(tensor);
  if (id == graph::kNoValue) {
    refuse(Refusal::kUnknownTensor, "");
    return false;
  }
  argument = graph::Argument::reference(id);
  return true;
}

/// Whether the operator takes tensors whose sizes depend on data, and may raise at others than those of the recording.
bool OperatorRecorder::may_raise_on_sizes(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const {
  if (!any_unsized()) return false;
  bool any = false, alike = true;
  graph::ValueId like = graph::kNoValue;
  auto look = [&](const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number()) return;
    const graph::ValueId id = find(tensor);
    any = any || is_unsized(id);
    alike = alike && (like == graph::kNoValue || like == id);
    like = id;
  };
  for (std::size_t at = first; at < stack.size(); at++) {
    if (stack[at].isTensor()) look(stack[at].toTensor());
    if (!stack[at].isList()) continue;
    for (const c10::IValue& item : stack[at].toListRef()) {
      if (item.isTensor()) look(item.toTensor());
    }
  }
  const std::string_view name = graph::base_name(op);
  return any && !(alike && !op.schema().is_mutable() && (graph::is_elementwise(name) || graph::sums_up(name)));
}

bool OperatorRecorder::touches_unsized(const graph::Node& node) const {
  bool any = false;
  if (any_unsized()) graph::visit_values(node, [&](graph::ValueId id) { any = any || is_unsized(id); });
  return any;
}

/// Sizes that depend on data, as they go on through the node. False where they are not understood, or where memory that has been
/// written would be seen in an unknown size: what is written after this is refused (`unsized_storages_`).
bool OperatorRecorder::learn_data_sizes(const graph::Node& node) {
  auto number = [&](graph::ValueId id) -> c10::IValue { return wrapped_number(host_numbers_.at(id)); };
  if (!data_sizes_.learn(*graph_, node, number)) return false;
  bool shares = false;
  for (graph::ValueId output : node.outputs) {
    if (output == graph::kNoValue || !is_unsized(output)) continue;
    const auto storage = storage_of_.find(output);
    graph::visit_values(node, [&](graph::ValueId id) {
      const at::Tensor operand = is_unsized(id) ? at::Tensor() : tensor(id);
      const bool same = operand.defined() && operand.has_storage() && storage != storage_of_.end() && operand.storage().unsafeGetStorageImpl() == storage->second;
      shares = shares || (same && (written_inside_.count(storage->second) != 0 || written_at_.count(const_cast<c10::StorageImpl*>(storage->second)) != 0));
    });
    const at::Tensor result = tensor(output);
    if (result.defined() && result.has_storage() && unsized_storages_.insert(result.storage().unsafeGetStorageImpl()).second)
      unsized_pins_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(result.storage().unsafeGetStorageImpl()));
  }
  return !shares;
}

/// The graph input that is a host value.
graph::Argument OperatorRecorder::host_input(std::int32_t host, const c10::Scalar& number, bool sized) {
  if (sized) sized_hosts_[host] = number.toLong();
  for (const auto& [known, id] : host_inputs_) {
    if (id == host) return graph::Argument::reference(known);
  }
  const at::Tensor holder = wrapped_number(number);
  graph::TensorType type = graph::TensorType::of(holder);
  type.number = true;
  graph::ValueId id = graph_->add_input(type, graph::InputKind::kActivation, fmt::format("host_{}", host));
  known_order_.resize(graph_->values.size());
  host_inputs_[id] = host;
  host_numbers_[id] = number;
  return graph::Argument::reference(id);
}

/// Host values may decide sizes where the recording says so; what a tensor's number is, is known once torch has asked for it.
bool OperatorRecorder::takes_place(const HostArgument& host, bool sized) const {
  if (host.data != graph::kNoValue) return true;
  return host.tensor == graph::kNoValue && (!sized || binds_sizes);
}

/// Where a host value was given to the call, and the operator has just that number in its place: the replay's own number.
bool OperatorRecorder::bind_host(const c10::OperatorHandle& op, std::size_t at, const c10::IValue& value, graph::Argument& argument) {
  if (bind_index(op, at, value, argument)) return true;
  // Numbers that decide how large a result is.
  static const std::set<std::string> sizes = {"aten::arange", "aten::range"};
  const bool sized = sizes.count(op.schema().name()) != 0;
  const bool called = graph::base_name(op) == host_callee;
  if (host_arguments.empty() || host_calls_ > 1) return false;
  const c10::Argument& formal = op.schema().arguments()[at];
  bool wrapped = value.isTensor() && value.toTensor().defined() && value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
  c10::TypePtr type = formal.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  const bool own = called && (binds_sizes || offers_data());
  if (sized && !own) return false;
  if (own && type->kind() == c10::TypeKind::ListType && value.isIntList()) return bind_list(formal, at, value, argument);
  bool scalar = (value.isInt() || value.isDouble()) && type->kind() == c10::TypeKind::NumberType;
  // An index decides neither shape nor strides.
  const std::string_view place = op.schema().overload_name();
  const bool index = at == 2 && value.isInt() && ((op.schema().name() == "aten::select" && place == "int") || (op.schema().name() == "aten::narrow" && place.empty()));
  const bool size = own && type->kind() == c10::TypeKind::SymIntType && value.isInt();
  // A plain int that is a size, of which only data decides.
  const bool length = own && called && host_callee == "_pad_packed_sequence" && type->kind() == c10::TypeKind::IntType && value.isInt();
  if (!wrapped && !scalar && !index && !size && !length) return false;
  at::Scalar number = wrapped ? value.toTensor().item() : value.toScalar();
  if (sized && number.isFloatingPoint()) return false;  // no size that is followed
  for (HostArgument& host : host_arguments) {
    bool here = host.item < 0 && (host.name.empty() ? host.position == at : host.name == formal.name());
    if (!here || host.value.type() != number.type()) continue;
    bool same = number.isFloatingPoint() ? number.toDouble() == host.value.toDouble() : number.toLong() == host.value.toLong();
    if (!same || (length && host.data == graph::kNoValue) || !takes_place(host, (size && !index) || sized)) continue;
    if (host.tensor != graph::kNoValue) taken_answers_++;
    argument = host.data != graph::kNoValue ? graph::Argument::reference(host.data) : host_input(host.host, number, (size && !index) || sized);
    return host.bound = true;
  }
  return false;
}

/// A list of sizes, given as a tuple, as arguments one by one, or as one number for all.
bool OperatorRecorder::bind_list(const c10::Argument& formal, std::size_t at, const c10::IValue& value, graph::Argument& argument) {
  c10::TypePtr type = formal.real_type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (type->castRaw<c10::ListType>()->getElementType()->kind() != c10::TypeKind::SymIntType) return false;
  const std::vector<std::int64_t> numbers = value.toIntVector();
  std::vector<graph::Argument> items;
  bool any = false;
  for (std::size_t i = 0; i < numbers.size(); i++) {
    items.push_back(graph::Argument::constant(numbers[i]));
    for (HostArgument& host : host_arguments) {
      const bool named = !host.name.empty();
      const bool in_list = host.item == static_cast<std::int32_t>(i) && (named ? host.name == formal.name() : host.position == at);
      // One number for a list of a fixed length stands for each of its items. Items that are given one by one have no list in front.
      const bool one_by_one = host.position == at + i && (i == 0 || !host.behind_list);
      const bool alone = host.item < 0 && (named ? host.name == formal.name() : formal.N() ? host.position == at : one_by_one);
      if ((!in_list && !alone) || !host.value.isIntegral(false) || host.value.toLong() != numbers[i] || !takes_place(host, true)) continue;
      if (host.tensor != graph::kNoValue) taken_answers_++;
      items.back() = host.data != graph::kNoValue ? graph::Argument::reference(host.data) : host_input(host.host, host.value, true);
      host.bound = any = true;
      break;
    }
  }
  if (any) argument = graph::Argument::list(std::move(items));
  return any;
}

/// Which item of the index that is being taken the operator stands for: items come in order, and slices that torch leaves out are passed over.
void OperatorRecorder::find_index_part(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  const std::string_view name = graph::base_name(op);
  const std::size_t from = index_part_ == ~std::size_t{0} ? 0 : index_part_ + 1;
  if (index_parts.empty() || (name != "slice" && name != "select") || !stack[first + 1].isInt()) return;
  for (std::size_t i = from; i < index_parts.size(); i++) {
    if (index_parts[i].slice != (name == "slice") || index_parts[i].dimension != stack[first + 1].toInt()) continue;
    index_parts[index_part_ = i].taken = true;
    return;
  }
}

bool OperatorRecorder::bind_index(const c10::OperatorHandle& op, std::size_t at, const c10::IValue& value, graph::Argument& argument) {
  if (index_part_ >= index_parts.size() || at < 2 || !value.isInt()) return false;
  IndexPart& part = index_parts[index_part_];
  if (graph::base_name(op) != (part.slice ? "slice" : "select") || at - 2 >= part.numbers.size()) return false;
  IndexNumber& number = part.numbers[at - 2];
  if (!number.is_given() || number.value != value.toInt()) return false;
  argument = number.data != graph::kNoValue ? graph::Argument::reference(number.data) : host_input(number.host, number.value, part.slice && !part.moves);
  return number.bound = true;
}

bool OperatorRecorder::argument_of(const c10::IValue& value, graph::Argument& argument) {
  if (value.isTensor()) return tensor_argument(value.toTensor(), argument);
  if (value.isTensorList() || value.isOptionalTensorList() || (value.isList() && !value.toListRef().empty() && value.toListRef()[0].isTensor())) {
    std::vector<graph::Argument> items;
    for (const c10::IValue& item : value.toListRef()) {
      graph::Argument one;
      if (!(item.isNone() || tensor_argument(item.toTensor(), one))) return false;
      items.push_back(std::move(one));
    }
    argument = graph::Argument::list(std::move(items));
    return true;
  }
  if (value.isGenerator() || value.isObject() || value.isPyObject() || value.isStorage() || value.isStream() || value.isCapsule()) {
    refuse(Refusal::kUnrecordable, "");
    return false;
  }
  if (value.isSymInt() || value.isSymFloat() || value.isSymBool()) {
    refuse(Refusal::kUnrecordable, "");
    return false;
  }
  // Lists are shared by reference in an IValue: the node keeps a copy of its own.
  argument = graph::Argument::constant(value.isList() ? value.deepcopy() : value);
  return true;
}

/// A tensor of integers, or such a number if numbers may be others on each replay.
static bool is_integer(const c10::IValue& value, bool numbers) {
  if (!value.isTensor() || !value.toTensor().defined()) return numbers && value.isInt();
  const at::Tensor& tensor = value.toTensor();
  return c10::isIntegralType(tensor.scalar_type(), true) && (numbers || !tensor.unsafeGetTensorImpl()->is_wrapped_number());
}

/// Whether the operator computes with a number that it is given: one of its own, or one that came in a tensor.
static bool computes_with_numbers(const c10::OperatorHandle& op) {
  const auto& formals = op.schema().arguments();
  return formals.empty() || std::any_of(formals.begin() + 1, formals.end(), [](const c10::Argument& formal) {
    c10::TypePtr type = formal.type();
    if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
    return type->kind() == c10::TypeKind::TensorType || type->kind() == c10::TypeKind::NumberType;
  });
}

/// A number of each replay may be out of range: of an index, or of a type that holds few numbers.
bool OperatorRecorder::may_raise_on_numbers(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const {
  const std::string_view name = graph::base_name(op);
  const bool indexed = std::any_of(index_parts.begin(), index_parts.end(), [](const IndexPart& part) { return part.numbers[part.slice ? 2 : 0].host >= 0 && !part.in_range; });
  if (indexed && (name == "select" || name == "slice")) return true;
  if (host_arguments.empty()) return false;
  static const std::unordered_set<std::string_view> picky = {"select", "narrow", "celu", "uniform", "exponential", "geometric", "cauchy", "log_normal", "renorm", "pdist", "cdist"};
  if (picky.count(name) != 0) return true;
  if (!computes_with_numbers(op)) return false;
  auto narrow = [](const c10::IValue& value) {
    if (!value.isTensor() || !value.toTensor().defined()) return false;
    const c10::ScalarType type = value.toTensor().scalar_type();
    return type == at::kHalf || (c10::isIntegralType(type, true) && type != at::kLong);
  };
  return std::any_of(stack.begin() + static_cast<std::ptrdiff_t>(first), stack.end(), narrow);
}

/// Autograd refuses writes by what was done to a tensor before: to a leaf, to a view that is one of several, to what was saved.
bool OperatorRecorder::may_raise_on_history(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const {
  if (!op.schema().is_mutable() || !c10::GradMode::is_enabled()) return false;
  bool needs_grad = false, unknown = false;
  for (std::size_t i = first; i < stack.size(); i++) {
    if (!stack[i].isTensor() || !stack[i].toTensor().defined()) continue;
    needs_grad = needs_grad || stack[i].toTensor().requires_grad();
    unknown = unknown || find(stack[i].toTensor()) == graph::kNoValue;  // an argument that comes in just here
  }
  return needs_grad && (unknown || writes(op, stack, first, outside_storages_));
}

Refusal OperatorRecorder::refuse_before(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) {
  for (std::size_t i = first; i < stack.size(); i++) {
    const c10::IValue& value = stack[i];
    if (value.isTensor() && value.toTensor().defined() && !is_plain(value.toTensor())) return Refusal::kUnsupportedLayout;
    if (value.isTensorList()) {
      for (const at::Tensor& item : value.toTensorList()) {
        if (item.defined() && !is_plain(item)) return Refusal::kUnsupportedLayout;
      }
    }
  }
  if (guards::writes_unsaid(op)) return Refusal::kUnrecordable;
  if (data_dependent(op, stack, first)) return Refusal::kDataDependent;
  if (wrote_outside_ && (offers_data() || may_raise_on_history(op, stack, first))) return Refusal::kMayRaiseAfterWrite;
  const bool integers = stack.size() > first + 1 && is_integer(stack[first + 1], !host_arguments.empty());
  if (wrote_outside_ && may_raise_on_sizes(op, stack, first)) return Refusal::kMayRaiseAfterWrite;
  if (wrote_outside_ && may_raise_on_numbers(op, stack, first)) return Refusal::kMayRaiseAfterWrite;
  if (wrote_outside_ && graph::may_raise_on_data(op, integers) && !is_checked_early(op, stack, first)) return Refusal::kMayRaiseAfterWrite;
  if ((graph::raises_half_way(op, integers) || accumulates(op, stack, first)) && stack[first].isTensor()) {
    const bool unknown = find(stack[first].toTensor()) == graph::kNoValue;  // an argument that comes in just here
    if (unknown || writes(op, stack, first, outside_storages_)) return Refusal::kMayRaiseAfterWrite;
  }
  return Refusal::kNone;
}

graph::ValueId OperatorRecorder::result_value(const at::Tensor& tensor, const std::string& name) {
  if (!tensor.defined()) return graph::kNoValue;
  graph::ValueId id = find(tensor);
  if (id != graph::kNoValue) return id;
  id = graph_->add_value({graph::TensorType::of(tensor), name});
  if (tensor.has_storage()) storage_of_[id] = tensor.storage().unsafeGetStorageImpl();
  known_order_.resize(graph_->values.size());
  known_order_[static_cast<std::size_t>(id)] = tensor.unsafeGetTensorImpl();
  known_.insert_or_assign(tensor.unsafeGetTensorImpl(), Known{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), id});
  return id;
}

bool OperatorRecorder::record_results(const c10::OperatorHandle& op, graph::Node& node, const torch::jit::Stack& stack,
                                      std::size_t first) {
  std::string base = op.schema().name();
  base = base.substr(base.rfind(':') + 1);
  int number = 0;
  for (std::size_t i = first; i < stack.size(); i++) {
    const c10::IValue& value = stack[i];
    auto name = [&] { return fmt::format("{}_{}_{}", base, graph_->nodes.size(), number++); };
    auto one = [&](const at::Tensor& tensor) {
      if (tensor.defined() && !is_plain(tensor)) return false;
      node.outputs.push_back(result_value(tensor, name()));
      return true;
    };
    if (value.isTensor()) {
      node.return_lengths.push_back(-1);
      if (!one(value.toTensor())) return false;
    } else if (value.isTensorList()) {
      auto list = value.toTensorVector();
      node.return_lengths.push_back(static_cast<std::int32_t>(list.size()));
      for (const at::Tensor& tensor : list) {
        if (!one(tensor)) return false;
      }
    } else if (value.isInt() || value.isDouble() || value.isBool() || value.isNone() || value.isScalar()) {
      // A number: a property of the types, not of the data (data-dependent operators were refused before).
      node.return_lengths.push_back(-1);
      node.outputs.push_back(graph::kNoValue);
    } else {
      return false;
    }
  }
  return true;
}

/// `torch.tensor(data)` and the like write data behind the dispatcher; `lift_fresh` marks the result. Its contents become a
/// constant of the graph, copied on each replay because the program may write it.
void OperatorRecorder::record_literal(const at::Tensor& tensor) {
  static const auto clone = c10::Dispatcher::singleton().findSchemaOrThrow("aten::clone", "");
  at::Tensor kept = tensor.is_cpu() ? tensor.clone() : tensor.cpu().to(tensor.device());  // there for every stream
  graph::ValueId constant = graph_->add_input(graph::TensorType::of(kept), graph::InputKind::kParameter, fmt::format("literal_{}", graph_->nodes.size()));
  constants_.emplace_back(constant, kept);
  graph::Node node{clone, {graph::Argument::reference(constant), graph::Argument::constant(c10::IValue())}, {}, {-1}, {}, source_};
  node.mode.grad_enabled = c10::GradMode::is_enabled();
  node.mode.inference = c10::InferenceMode::is_enabled();  // decides whether the copy is an inference tensor
  known_order_.resize(graph_->values.size());
  known_.erase(tensor.unsafeGetTensorImpl());  // whatever it was before it was filled
  node.outputs.push_back(result_value(tensor, fmt::format("tensor_{}", graph_->nodes.size())));
  constant_values_.insert(node.outputs[0]);
  graph_->nodes.push_back(std::move(node));
}

/// Which of the numbers that were given to `torch.tensor` the element of the result is.
OperatorRecorder::HostArgument* OperatorRecorder::number_at(const at::Tensor& tensor, std::int64_t item) {
  const at::Scalar now = tensor.dim() == 0 ? tensor.item() : tensor[item].item();
  for (HostArgument& host : host_arguments) {
    const bool is_data = host.name.empty() ? host.position == (host_callee == "new_tensor" ? 1 : 0) : host.name == "data";
    if (!is_data || host.item != item || !takes_place(host, false) || (host.value.isFloatingPoint() && !now.isFloatingPoint())) continue;
    const bool same = tensor.scalar_type() == at::kFloat ? static_cast<float>(host.value.toDouble()) == static_cast<float>(now.toDouble()) : now.isFloatingPoint() ? host.value.toDouble() == now.toDouble() : host.value.toLong() == now.toLong();
    if (same) return &host;
  }
  return nullptr;
}

/// `torch.tensor(n)`, `torch.tensor([n, m])` of numbers of each replay: made by operators that take them.
bool OperatorRecorder::record_numbers(const at::Tensor& tensor) {
  static const auto full = c10::Dispatcher::singleton().findSchemaOrThrow("aten::full", "");
  static const auto stack = c10::Dispatcher::singleton().findSchemaOrThrow("aten::stack", "");
  const bool constructs = host_callee == "tensor" || host_callee == "as_tensor" || host_callee == "new_tensor";
  const c10::ScalarType type = tensor.scalar_type();
  const bool holds_any = type == at::kLong || (!wrote_outside_ && (type == at::kFloat || type == at::kDouble));
  if (host_arguments.empty() || !constructs || !holds_any || tensor.dim() > 1) return false;
  const at::Tensor read = tensor.cpu();  // from a GPU all at once
  std::vector<HostArgument*> hosts;
  for (std::int64_t i = 0; i < tensor.numel(); i++) hosts.push_back(number_at(read, tensor.dim() == 0 ? -1 : i));
  if (std::none_of(hosts.begin(), hosts.end(), [](const HostArgument* host) { return host != nullptr; })) return false;
  graph::Mode mode;
  mode.grad_enabled = c10::GradMode::is_enabled();
  mode.inference = c10::InferenceMode::is_enabled();
  known_order_.resize(graph_->values.size());
  known_.erase(tensor.unsafeGetTensorImpl());  // whatever it was before it was filled
  std::vector<graph::Argument> items;
  auto add = [&](const c10::OperatorHandle& op, std::vector<graph::Argument> arguments, graph::ValueId result) {
    graph::Node node{op, std::move(arguments), {}, {-1}, {}, source_};
    node.mode = mode;
    node.outputs.push_back(result);
    note_constants(op, node, false);
    graph_->nodes.push_back(std::move(node));
    items.push_back(graph::Argument::reference(result));
  };
  const c10::IValue none;
  for (std::size_t i = 0; i < hosts.size(); i++) {
    const at::Tensor element = tensor.dim() == 0 ? tensor : tensor[static_cast<std::int64_t>(i)], number_now = tensor.dim() == 0 ? read : read[static_cast<std::int64_t>(i)];
    HostArgument* host = hosts[i];
    graph::Argument number = !host ? graph::Argument::constant(number_now.item()) : host->data != graph::kNoValue ? graph::Argument::reference(host->data) : host_input(host->host, host->value, false);
    if (host) host->bound = true;
    const std::string name = fmt::format("tensor_{}", graph_->nodes.size());
    const graph::ValueId result = tensor.dim() == 0 ? result_value(tensor, name) : graph_->add_value({graph::TensorType::of(element.clone()), name});
    known_order_.resize(graph_->values.size());
    add(full, {graph::Argument::constant(std::vector<std::int64_t>()), std::move(number), graph::Argument::constant(static_cast<std::int64_t>(type)), graph::Argument::constant(none),
               graph::Argument::constant(tensor.device()), graph::Argument::constant(none)}, result);
  }
  if (tensor.dim() == 0) return true;
  std::vector<graph::Argument> list = std::exchange(items, {});
  add(stack, {graph::Argument::list(std::move(list)), graph::Argument::constant(std::int64_t{0})}, result_value(tensor, fmt::format("tensor_{}", graph_->nodes.size())));
  return true;
}

void OperatorRecorder::add_literal(const at::Tensor& tensor) {
  const graph::ValueId id = add_input(tensor, graph::InputKind::kParameter, fmt::format("literal_{}", graph_->values.size()));
  constants_.emplace_back(id, tensor);
  constant_values_.insert(id);
}

bool OperatorRecorder::take_as_contiguous(const at::Tensor& tensor) {
  static const auto contiguous = c10::Dispatcher::singleton().findSchemaOrThrow("aten::contiguous", "");
  return take_as_result(tensor, {contiguous, {graph::Argument::constant(static_cast<std::int64_t>(c10::MemoryFormat::Contiguous))}, {}, {-1}, {}, source_});
}

bool OperatorRecorder::take_as_slice(const at::Tensor& tensor, const IndexPart& part) {
  static const auto slice = c10::Dispatcher::singleton().findSchemaOrThrow("aten::slice", "Tensor");
  if (find(tensor) == graph::kNoValue) return false;
  const IndexNumber& stop = part.numbers[1];
  graph::Argument end = stop.host < 0 ? graph::Argument::constant(stop.value) : host_input(stop.host, stop.value, true);
  return take_as_result(tensor, {slice, {graph::Argument::constant(part.dimension), graph::Argument::constant(std::int64_t{0}), std::move(end), graph::Argument::constant(std::int64_t{1})}, {}, {-1}, {}, source_});
}

/// Adds a node of what the tensor was up to here and of further arguments, whose result it is from here on.
bool OperatorRecorder::take_as_result(const at::Tensor& tensor, graph::Node node) {
  const graph::ValueId before = find(tensor);
  if (before == graph::kNoValue) return false;
  node.arguments.insert(node.arguments.begin(), graph::Argument::reference(before));
  node.mode.grad_enabled = c10::GradMode::is_enabled();
  node.mode.inference = c10::InferenceMode::is_enabled();
  known_.erase(tensor.unsafeGetTensorImpl());
  node.outputs.push_back(result_value(tensor, fmt::format("{}_{}", graph::base_name(node.op), graph_->nodes.size())));
  graph_->nodes.push_back(std::move(node));
  return true;
}

bool OperatorRecorder::only_constants(const torch::jit::Stack& stack, std::size_t first) const {
  auto constant = [&](const at::Tensor& tensor) {
    return !tensor.defined() || tensor.unsafeGetTensorImpl()->is_wrapped_number() || is_constant(find(tensor));
  };
  for (std::size_t i = first; i < stack.size(); i++) {
    if (stack[i].isTensor() && !constant(stack[i].toTensor())) return false;
    if (stack[i].isTensorList()) {
      for (const at::Tensor& tensor : stack[i].toTensorVector()) {
        if (!constant(tensor)) return false;
      }
    } else if (stack[i].isOptionalTensorList()) {
      return false;
    }
  }
  return true;
}

/// Whether a node takes nothing but constants, what follows from sizes, and numbers that decide sizes.
bool OperatorRecorder::only_sizes(const graph::Node& node) const {
  bool only = true;
  graph::visit_values(node, [&](graph::ValueId id) {
    auto host = host_inputs_.find(id);
    const bool size = host != host_inputs_.end() && (sized_hosts_.count(host->second) != 0 || size_hosts_.count(host->second) != 0);
    only = only && (size || is_constant(id) || follows_from_sizes(id));
  });
  return only;
}

/// The number of a settled value, or its truth, and nothing else.
bool OperatorRecorder::looks_at_settled(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const {
  const std::string& name = op.schema().name();
  return name != "aten::equal" && name != "aten::allclose" && stack[first].isTensor() && settled_contents_.count(find(stack[first].toTensor())) != 0;
}

void OperatorRecorder::note_constants(const c10::OperatorHandle& op, const graph::Node& node, bool constant_arguments) {
  const std::string& name = op.schema().name();
  bool writes = op.schema().is_mutable();
  bool deterministic = !op.hasTag(at::Tag::nondeterministic_seeded) && name.find("empty") == std::string::npos && name.rfind("aten::", 0) == 0;
  if (writes && !(constant_arguments && deterministic)) constant_values_.clear();  // views may show what was written
  if (writes) size_values_.clear();
  if (!writes && deterministic && !constant_arguments && only_sizes(node)) {
    for (graph::ValueId output : node.outputs) {
      if (output != graph::kNoValue) size_values_.insert(output);
    }
  }
  if (!constant_arguments || !deterministic) return;
  for (graph::ValueId output : node.outputs) {
    if (output != graph::kNoValue) constant_values_.insert(output);
  }
}

/// `fill_` of a tensor on another device than the literal's takes its number, and so may the graph (`mask[a:b] = 3` on a GPU).
bool OperatorRecorder::fills_with_literal(const c10::OperatorHandle& op, const torch::jit::Stack& stack, std::size_t first) const {
  if (refusal_ != Refusal::kNone || !host_arguments.empty() || op.operator_name().name != "aten::fill_" || op.operator_name().overload_name != "Tensor") return false;
  const at::Tensor &self = stack[first].toTensor(), &value = stack[first + 1].toTensor();
  const bool recorded_alike = !(c10::GradMode::is_enabled() && (self.requires_grad() || value.requires_grad()));  // autograd has names for both
  return recorded_alike && self.device() != value.device() && value.device().is_cpu() && value.dim() == 0 && is_constant(find(value));
}

void OperatorRecorder::call(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const std::size_t first = stack->size() - count;
  if (cast_operands_ && op.schema().name() == "aten::to") return call_cast(op, stack, first);
  if (const auto key = refusal_ == Refusal::kNone ? autocast_kernel(op, *stack, first) : c10::DispatchKey::Undefined; key != c10::DispatchKey::Undefined) return call_casting(op, key, stack, first);
  if (refusal_ == Refusal::kNone && op.schema().name() == "aten::lift_fresh" && is_of_constructor((*stack)[first].toTensor())) {
    at::Tensor data = (*stack)[first].toTensor();
    bool made_here = find(data) == graph::kNoValue || static_cast<std::size_t>(find(data)) >= instruction_values_;
    bool literal = made_here && (data.is_cpu() || data.is_cuda()) && is_plain(data) && data.numel() <= 65536 && !data.requires_grad();
    op.callBoxed(stack);
    const at::Tensor& result = stack->back().toTensor();
    if (literal && record_numbers(result)) return;
    if (literal) record_literal(result);
    else refuse(Refusal::kDataDependent, op.schema().name());
    return;
  }
  if (fills_with_literal(op, *stack, first)) {
    static const auto fill = c10::Dispatcher::singleton().findSchemaOrThrow("aten::fill_", "Scalar");
    (*stack)[first + 1] = (*stack)[first + 1].toTensor().item();
    return call(fill, stack);
  }
  if (op.schema().name() != "aten::item") host_calls_++;
  const bool constant_index = std::all_of(index_parts.begin(), index_parts.end(), [](const IndexPart& part) {
    return std::none_of(part.numbers.begin(), part.numbers.end(), [](const IndexNumber& number) { return number.is_given(); });
  });
  const bool constant_arguments = host_arguments.empty() && constant_index && only_constants(*stack, first);
  if (refusal_ == Refusal::kNone && op.schema().name() == "aten::detach_") {
    const at::Tensor& self = (*stack)[first].toTensor();
    if (find(self) != graph::kNoValue && !self.requires_grad() && !self.is_view()) {
      looked_at_++;  // nothing to detach
      op.callBoxed(stack);
      return;
    }
  }
  if (refusal_ == Refusal::kNone && looks_at_data(op) && (constant_arguments || looks_at_settled(op, *stack, first))) {
    looked_at_++;
    op.callBoxed(stack);
    return;
  }
  if (refusal_ == Refusal::kNone && answer_item(op, stack, first)) return;
  if (refusal_ == Refusal::kNone) {
    Refusal why = refuse_before(op, *stack, first);
    if (why != Refusal::kNone) refuse(why, op.schema().name());
  }
  if (refusal_ != Refusal::kNone) {
    op.callBoxed(stack);
    return;
  }
  const bool decides = gives_unsized(op, *stack, first);
  find_index_part(op, *stack, first);
  bring_in_first(*stack, first);
  graph::Node node{op, {}, {}, {}, mode_now(), source_};
  for (std::size_t i = 0; i < count; i++) {
    graph::Argument argument;
    if (!bind_host(op, i, (*stack)[first + i], argument) && !argument_of((*stack)[first + i], argument)) {
      refused_operator_ = op.schema().name();
      op.callBoxed(stack);
      return;
    }
    node.arguments.push_back(std::move(argument));
  }
  if (has_own_version(op) && outside_storages_.count((*stack)[first].toTensor().storage().unsafeGetStorageImpl()) != 0) {
    refuse(Refusal::kUnrecordable, op.schema().name());
    op.callBoxed(stack);
    return;
  }
  if (any_unsized() && writes(op, *stack, first, unsized_storages_)) {
    refuse(Refusal::kDataDependent, op.schema().name());
    op.callBoxed(stack);
    return;
  }
  if ((wrote_output_ && writes(op, *stack, first, outside_storages_)) || (!frozen_.empty() && writes(op, *stack, first, frozen_))) {
    refuse(Refusal::kWriteAfterOutput, op.schema().name());
    op.callBoxed(stack);
    return;
  }
  note_writes(op, *stack, first);
  const WrittenSizes written(op, *stack, first);
  try {
    call_watched(op, stack, first, node.mode);
  } catch (...) {
    refuse(Refusal::kRaised, op.schema().name());
    throw;
  }
  if (written.changed() || !record_results(op, node, *stack, first)) {
    refuse(Refusal::kUnsupportedLayout, op.schema().name());
    return;
  }
  if (op.hasTag(at::Tag::inplace_view)) {
    // From here on the value has another type than at first: libtorch's own operators follow that, compiled code does not.
    for (graph::ValueId id : node.outputs) std::get<graph::TensorType>(graph_->values[static_cast<std::size_t>(id)].type).lazy = true;
    if ((*stack)[first].isTensor()) reshaped_.insert((*stack)[first].toTensor().unsafeGetTensorImpl());
  }
  if ((decides || touches_unsized(node)) && !learn_data_sizes(node)) {
    refuse(Refusal::kDataDependent, op.schema().name());
    return;
  }
  note_constants(op, node, constant_arguments);
  graph_->nodes.push_back(std::move(node));
}

}  // namespace dynrun::trace
