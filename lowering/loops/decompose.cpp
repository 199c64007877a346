#include "lowering/loops/decompose.h"

#include "graph/text.h"

#include <ATen/ATen.h>
#include <ATen/native/TypeProperties.h>

namespace dynrun::lowering {
namespace {

using graph::Argument;
using graph::kNoValue;

bool is_supported(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::ScalarType::Float:
    case c10::ScalarType::Double:
    case c10::ScalarType::Half:
    case c10::ScalarType::BFloat16:
    case c10::ScalarType::Long:
    case c10::ScalarType::Int:
    case c10::ScalarType::Short:
    case c10::ScalarType::Char:
    case c10::ScalarType::Byte:
    case c10::ScalarType::Bool:
      return true;
    default:
      return false;
  }
}

bool is_supported(const Program& program, const Argument& argument) {
  if (argument.is_list()) {
    return std::all_of(argument.items().begin(), argument.items().end(),
                       [&](const Argument& item) { return is_supported(program, item); });
  }
  if (!argument.is_value() || argument.value() == kNoValue) return true;
  const graph::Value& value = program.graph.values[static_cast<std::size_t>(argument.value())];
  return value.is_tensor() && is_supported(value.tensor().dtype) && !value.tensor().unsized && !program.is_elsewhere(argument.value()) &&
         value.tensor().strides.size() == value.tensor().sizes.size();
}

}  // namespace

const Argument* RuleContext::find(std::string_view name) const {
  const auto& formals = node_.op.schema().arguments();
  for (std::size_t i = 0; i < formals.size(); ++i) {
    if (formals[i].name() == name) return &node_.arguments[i];
  }
  return nullptr;
}

const Argument& RuleContext::at(std::string_view name) const {
  const Argument* argument = find(name);
  if (argument == nullptr) throw NotCovered{};
  return *argument;
}

bool RuleContext::has(std::string_view name) const {
  const Argument* argument = find(name);
  if (argument == nullptr) return false;
  if (argument->is_value()) return argument->value() != kNoValue;
  return argument->is_list() || !argument->constant().isNone();
}

bool RuleContext::is_tensor(std::string_view name) const {
  const Argument* argument = find(name);
  return argument != nullptr && argument->is_value() && argument->value() != kNoValue;
}

graph::ValueId RuleContext::value(std::string_view name) const {
  if (!is_tensor(name)) throw NotCovered{};
  return at(name).value();
}

const graph::TensorType& RuleContext::type(std::string_view name) const {
  return program_.graph.type_of(value(name));
}
Expr RuleContext::tensor(std::string_view name) const {
  return load(value(name), type(name));
}

const c10::IValue& RuleContext::scalar(std::string_view name) const {
  const Argument& argument = at(name);
  if (!argument.is_constant() || !(argument.constant().isScalar() || argument.constant().isBool())) throw NotCovered{};
  if (argument.constant().isComplexDouble()) throw NotCovered{};
  return argument.constant();
}

double RuleContext::number(std::string_view name, double otherwise) const {
  return has(name) ? scalar(name).toScalar().toDouble() : otherwise;
}
std::int64_t RuleContext::integer(std::string_view name, std::int64_t otherwise) const {
  return has(name) ? scalar(name).toScalar().toLong() : otherwise;
}
bool RuleContext::flag(std::string_view name, bool otherwise) const {
  return has(name) ? scalar(name).toScalar().toBool() : otherwise;
}

std::vector<std::int64_t> RuleContext::integers(std::string_view name) const {
  const Argument& argument = at(name);
  if (argument.is_constant() && argument.constant().isNone()) return {};
  if (argument.is_constant() && argument.constant().isIntList()) return argument.constant().toIntVector();
  if (argument.is_constant() && argument.constant().isInt()) return {argument.constant().toInt()};
  if (!argument.is_list()) throw NotCovered{};
  std::vector<std::int64_t> out;
  for (const Argument& item : argument.items()) {
    if (!item.is_constant() || !item.constant().isInt()) throw NotCovered{};
    out.push_back(item.constant().toInt());
  }
  return out;
}

Expr RuleContext::operand(const Argument& argument, c10::ScalarType dtype) const {
  if (argument.is_value()) {
    if (argument.value() == kNoValue) throw NotCovered{};
    return cast(load(argument.value(), program_.graph.type_of(argument.value())), compute_type(dtype));
  }
  if (!argument.is_constant()) throw NotCovered{};
  const c10::IValue& value = argument.constant();
  if (value.isInt() || value.isBool()) return integer_constant(value.toScalar().toLong(), compute_type(dtype));
  if (value.isDouble()) return constant(value.toDouble(), compute_type(dtype));
  throw NotCovered{};
}

Expr RuleContext::operand(std::string_view name, c10::ScalarType dtype) const {
  return operand(at(name), dtype);
}

/// Whether all numbers of one dtype are in the range of another. A float's rounding does not matter.
static bool always_fits(c10::ScalarType from, c10::ScalarType into) {
  const bool too_large = into == at::kHalf && (from == at::kInt || from == at::kLong);
  return from == into || (c10::promoteTypes(from, into) == into && !too_large);
}

Expr RuleContext::fitting(std::string_view name, c10::ScalarType dtype, bool of_tensor) const {
  if (is_tensor(name)) {
    const graph::TensorType& given = type(name);
    const bool converted = given.number || (of_tensor && given.sizes.empty());
    if (converted && !(always_fits(given.dtype, dtype) && always_fits(given.dtype, out().dtype))) throw NotCovered{};
  }
  return operand(name, dtype);
}

c10::ScalarType RuleContext::promoted(std::initializer_list<std::string_view> names) const {
  at::native::ResultTypeState state;
  for (std::string_view name : names) {
    if (is_tensor(name)) {
      const graph::TensorType& seen = type(name);
      at::Tensor stand_in =
          at::empty(seen.sizes.empty() ? std::vector<std::int64_t>{} : std::vector<std::int64_t>{0}, seen.dtype);
      if (seen.number) stand_in.unsafeGetTensorImpl()->set_wrapped_number(true);
      state = at::native::update_result_type_state(stand_in, state);
    } else if (has(name)) {
      state = at::native::update_result_type_state(scalar(name).toScalar(), state);
    }
  }
  return at::native::result_type(state);
}

const graph::TensorType& RuleContext::out(std::size_t index) const {
  if (index >= node_.outputs.size() || node_.outputs[index] == kNoValue) throw NotCovered{};
  return program_.graph.type_of(node_.outputs[index]);
}

void RuleContext::define(Expr expression, std::size_t index) {
  const graph::TensorType& type = out(index);
  expression = cast(std::move(expression), type.dtype);
  if (expression->sizes != type.sizes) {
    // A scalar, or an expression of fewer dimensions, written over the whole result.
    auto wide = std::make_shared<Expression>(*expression);
    if (expression->kind == ExpressionKind::kPoint || expression->kind == ExpressionKind::kConstant) {
      wide->sizes = broadcast(expression->sizes, type.sizes);
    }
    if (wide->sizes != type.sizes) throw NotCovered{};
    expression = wide;
  }
  definitions_.push_back({node_.outputs[index], expression, type.strides, 0, true});
}

void RuleContext::define_reshaped(Expr expression, std::size_t index) {
  const graph::TensorType& type = out(index);
  if (!type.is_contiguous()) throw NotCovered{};
  expression = cast(std::move(expression), type.dtype);
  Sizes strides = graph::contiguous_strides(expression->sizes);
  definitions_.push_back({node_.outputs[index], std::move(expression), std::move(strides), 0, false});
}

void RuleContext::define_reduced(Expr expression, const std::vector<bool>& reduced, std::size_t index) {
  const graph::TensorType& type = out(index);
  expression = cast(std::move(expression), type.dtype);
  if (expression->sizes.size() == type.sizes.size()) {
    definitions_.push_back({node_.outputs[index], expression, type.strides, 0, expression->sizes == type.sizes});
    return;
  }
  Sizes strides;
  std::size_t next = 0;
  for (bool dropped : reduced) strides.push_back(dropped ? 0 : type.strides.at(next++));
  definitions_.push_back({node_.outputs[index], std::move(expression), std::move(strides), 0, false});
}

void RuleContext::define_part(Expr expression, Sizes strides, std::int64_t offset, std::size_t index) {
  expression = cast(std::move(expression), out(index).dtype);
  definitions_.push_back({node_.outputs[index], std::move(expression), std::move(strides), offset, false});
}

std::vector<bool> dimension_mask(const std::vector<std::int64_t>& dimensions, std::size_t rank) {
  std::vector<bool> mask(rank, dimensions.empty());
  for (std::int64_t dimension : dimensions) {
    mask.at(static_cast<std::size_t>(dimension < 0 ? dimension + static_cast<std::int64_t>(rank) : dimension)) = true;
  }
  return mask;
}

std::optional<std::vector<Definition>> decompose(const Program& program, const graph::Node& node) {
  std::string full = node.op_name();
  Rule rule = nullptr;
  for (const RuleTable* table : {&pointwise_rules(), &reduction_rules(), &copy_rules(), &pooling_rules(), &convolution_rules()}) {
    if (auto found = table->find(full); found != table->end()) rule = found->second;
    if (rule != nullptr) break;
    if (auto found = table->find(node.op.operator_name().name); found != table->end()) rule = found->second;
    if (rule != nullptr) break;
  }
  if (rule == nullptr || node.outputs.empty() || node.mode.autocast) return std::nullopt;
  for (const Argument& argument : node.arguments) {
    if (!is_supported(program, argument)) return std::nullopt;
  }
  for (graph::ValueId id : node.outputs) {
    if (id != kNoValue && !is_supported(program, Argument::reference(id))) return std::nullopt;
    if (id != kNoValue && program.is_view(id)) return std::nullopt;
  }
  try {
    RuleContext context(program, node);
    rule(context);
    return context.take();
  } catch (const NotCovered&) {
    return std::nullopt;
  }
}

}  // namespace dynrun::lowering
