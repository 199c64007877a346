#include "runtime/dispatch.h"

#include <ATen/ScalarOps.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/core/jit_type.h>

namespace dynrun::runtime {
namespace {

using ValueOf = std::function<const c10::IValue&(graph::ValueId)>;

c10::IValue build(const graph::Argument& argument, const c10::Type& type, const ValueOf& value);

template <typename T, typename Convert>
c10::IValue build_list(const std::vector<graph::Argument>& items, const c10::Type& element, const ValueOf& value,
                       Convert convert) {
  c10::List<T> list;
  list.reserve(items.size());
  for (const graph::Argument& item : items) list.push_back(convert(build(item, element, value)));
  return list;
}

c10::IValue build_items(const std::vector<graph::Argument>& items, const c10::Type& type, const ValueOf& value) {
  const c10::Type* list = &type;
  if (auto optional = type.cast<c10::OptionalType>()) list = optional->getElementType().get();
  const c10::TypePtr& element = list->castRaw<c10::ListType>()->getElementType();
  switch (element->kind()) {
    case c10::TypeKind::TensorType:
      return build_list<at::Tensor>(items, *element, value,
                                    [](const c10::IValue& v) { return v.isNone() ? at::Tensor() : v.toTensor(); });
    case c10::TypeKind::OptionalType:
      return build_list<std::optional<at::Tensor>>(items, *element, value, [](const c10::IValue& v) {
        return v.isNone() || !v.toTensor().defined() ? std::nullopt : std::optional(v.toTensor());
      });
    case c10::TypeKind::FloatType:
      return build_list<double>(items, *element, value, [](const c10::IValue& v) { return v.toScalar().toDouble(); });
    case c10::TypeKind::BoolType:
      return build_list<bool>(items, *element, value, [](const c10::IValue& v) { return v.toBool(); });
    case c10::TypeKind::StringType:
      return build_list<std::string>(items, *element, value, [](const c10::IValue& v) { return v.toStringRef(); });
    case c10::TypeKind::NumberType:
      return build_list<at::Scalar>(items, *element, value, [](const c10::IValue& v) { return v.toScalar(); });
    default:
      return build_list<std::int64_t>(items, *element, value, [](const c10::IValue& v) { return v.toInt(); });
  }
}

c10::IValue build(const graph::Argument& argument, const c10::Type& type, const ValueOf& value) {
  if (argument.is_list()) return build_items(argument.items(), type, value);
  if (argument.is_value()) {
    if (argument.value() == graph::kNoValue) return {};
    const c10::IValue& made = value(argument.value());
    // A host value where the schema says Scalar, int or SymInt.
    const c10::Type& plain = type.kind() == c10::TypeKind::OptionalType ? *type.castRaw<c10::OptionalType>()->getElementType() : type;
    if (plain.kind() == c10::TypeKind::NumberType && made.isTensor()) return made.toTensor().item();
    const bool index = plain.kind() == c10::TypeKind::IntType || plain.kind() == c10::TypeKind::SymIntType;
    if (index && made.isTensor()) return made.toTensor().item().toLong();
    return made;
  }
  const c10::IValue& constant = argument.constant();
  // A Python number where the schema says Tensor: a wrapped number, which does not decide the result's dtype.
  if (type.kind() == c10::TypeKind::TensorType && constant.isScalar())
    return at::native::wrapped_scalar_tensor(constant.toScalar());
  return constant;
}

}  // namespace

void push_arguments(const graph::Node& node, const ValueOf& value, torch::jit::Stack& stack) {
  const auto& formals = node.op.schema().arguments();
  stack.reserve(node.arguments.size());
  for (std::size_t i = 0; i < node.arguments.size(); ++i) {
    stack.push_back(build(node.arguments[i], *formals[i].real_type(), value));
  }
}

void call(const graph::Node& node, torch::jit::Stack& stack) {
  const auto& formals = node.op.schema().arguments();
  bool factory = std::none_of(formals.begin(), formals.end(), [](const c10::Argument& formal) {
    const c10::Type& type = *formal.real_type();
    return type.kind() == c10::TypeKind::TensorType || type.isSubtypeOf(*c10::ListType::ofTensors());
  });
  std::optional<at::AutoDispatchBelowADInplaceOrView> below;
  if (factory) below.emplace();
  node.op.callBoxed(stack);
}

void take_results(const graph::Node& node, torch::jit::Stack& stack,
                  const std::function<void(graph::ValueId, c10::IValue)>& store) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < node.return_lengths.size(); ++i) {
    std::int32_t length = node.return_lengths[i];
    if (length < 0) {
      graph::ValueId id = node.outputs[next++];
      if (id != graph::kNoValue) store(id, std::move(stack[i]));
      continue;
    }
    auto list = stack[i].toListRef();
    TORCH_CHECK(static_cast<std::int32_t>(list.size()) == length, node.op_name(), " returned a list of ", list.size(),
                ", recorded ", length);
    for (const c10::IValue& item : list) {
      graph::ValueId id = node.outputs[next++];
      if (id != graph::kNoValue) store(id, item);
    }
  }
  stack.clear();
}

ModeGuard::ModeGuard(const graph::Mode& mode)
    : old_grad_(at::GradMode::is_enabled()), old_autocast_{autocast_now(at::kCPU), autocast_now(at::kCUDA)} {
  if (c10::InferenceMode::is_enabled() != mode.inference) inference_.emplace(mode.inference);
  at::GradMode::set_enabled(mode.grad_enabled);
  for (const Autocast& old : old_autocast_) {
    const bool on = mode.autocast && mode.autocast_device == old.device;
    set_autocast({old.device, on, on ? mode.autocast_dtype : old.dtype});
  }
}

ModeGuard::Autocast ModeGuard::autocast_now(c10::DeviceType device) {
  return {device, at::autocast::is_autocast_enabled(device), at::autocast::get_autocast_dtype(device)};
}

void ModeGuard::set_autocast(const Autocast& wanted) {
  if (at::autocast::is_autocast_enabled(wanted.device) != wanted.on) at::autocast::set_autocast_enabled(wanted.device, wanted.on);
  if (at::autocast::get_autocast_dtype(wanted.device) != wanted.dtype) at::autocast::set_autocast_dtype(wanted.device, wanted.dtype);
}

ModeGuard::~ModeGuard() {
  for (const Autocast& old : old_autocast_) set_autocast(old);
  inference_.reset();
  at::GradMode::set_enabled(old_grad_);
}

}  // namespace dynrun::runtime
