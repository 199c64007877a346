// Numbers that tensor data decides (`.item()`, an element of `.tolist()`, the size of what `nonzero` gave) where operators take them: as sizes, indices, scalars.
//
// A node makes such a number when a replay comes to it: an element of a tensor, or arithmetic as Python does it. Its value is a number
// in a tensor without dimensions (graph::TensorType::number) that is marked `unsized`: it may be any, and what takes it may raise.

#include "trace/operator_recorder.h"

#include <ATen/ATen.h>
#include <ATen/ScalarOps.h>
#include <torch/library.h>

#include <fmt/format.h>

#include <cmath>

namespace dynrun::trace {
namespace {

constexpr std::int64_t kMostExact = std::int64_t{1} << 53;  // integers that are floats too

/// The element of that number in the order of indices.
at::Tensor number(const at::Tensor& of, std::int64_t index, const c10::Scalar&) {
  const at::NoGradGuard no_grad;
  TORCH_CHECK_INDEX(index < of.numel(), "no element ", index);
  return wrapped_number((of.dim() == 0 ? of : of.flatten()[index]).item());
}

at::Tensor size(const at::Tensor& of, std::int64_t dimension, const c10::Scalar&) { return wrapped_number(of.size(dimension)); }

std::int64_t compute(const std::string& how, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  bool fits = true;
  if (how == "add") fits = !__builtin_add_overflow(left, right, &result);
  if (how == "sub") fits = !__builtin_sub_overflow(left, right, &result);
  if (how == "mul") fits = !__builtin_mul_overflow(left, right, &result);
  if (how == "floordiv" || how == "mod") {
    TORCH_CHECK(right > 0, "a divisor that is not positive");
    const std::int64_t rest = left % right, over = rest < 0 ? 1 : 0;
    result = how == "mod" ? rest + over * right : left / right - over;
  }
  TORCH_CHECK(fits, "an integer of more than 64 bits");
  return result;
}

double compute(const std::string& how, double left, double right) {
  if (how == "add") return left + right;
  if (how == "sub") return left - right;
  if (how == "mul") return left * right;
  TORCH_CHECK(how == "truediv" && right != 0, how, " of floats");
  return left / right;
}

double real_of(const c10::Scalar& number) {
  TORCH_CHECK(number.isFloatingPoint() || std::llabs(number.toLong()) <= kMostExact, "an integer that is no float");
  return number.toDouble();
}

at::Tensor arithmetic(c10::string_view how_view, const c10::Scalar& left, const c10::Scalar& right, const c10::Scalar&) {
  const std::string how(how_view);
  if (how == "float") return wrapped_number(real_of(left));
  if (left.isFloatingPoint() || right.isFloatingPoint() || how == "truediv") return wrapped_number(compute(how, real_of(left), real_of(right)));
  return wrapped_number(compute(how, left.toLong(), right.toLong()));
}

TORCH_LIBRARY_FRAGMENT(dynrun, library) {
  // `now` is what the number was when it was recorded.
  library.def("number(Tensor of, int index, Scalar now) -> Tensor");
  library.def("size(Tensor of, int dimension, Scalar now) -> Tensor");
  library.def("arithmetic(str how, Scalar left, Scalar right, Scalar now) -> Tensor");
}
TORCH_LIBRARY_IMPL(dynrun, CompositeImplicitAutograd, library) {
  library.impl("number", number);
  library.impl("size", size);
  library.impl("arithmetic", arithmetic);
}

std::string print(const graph::Argument& argument) {
  if (argument.is_value()) return fmt::format("%{}", argument.value());
  const c10::IValue& constant = argument.constant();
  return constant.isDouble() ? fmt::format("{}f", constant.toDouble()) : constant.isInt() ? fmt::format("{}", constant.toInt()) : constant.toStringRef();
}

graph::Argument constant_of(const c10::Scalar& number) { return graph::Argument::constant(number.isFloatingPoint() ? c10::IValue(number.toDouble()) : c10::IValue(number.toLong())); }

graph::Argument as_argument(const OperatorRecorder::Number& number) { return number.value != graph::kNoValue ? graph::Argument::reference(number.value) : constant_of(number.now); }

}  // namespace

OperatorRecorder::Number OperatorRecorder::add_number(const std::string& op, std::vector<graph::Argument> arguments, const c10::Scalar& now) {
  std::string key = op;
  for (const graph::Argument& argument : arguments) key = fmt::format("{} {}", key, print(argument));
  auto [known, fresh] = numbers_.try_emplace(key, graph::kNoValue);
  if (!fresh) return {known->second, now};
  arguments.push_back(constant_of(now));
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::TESTING_ONLY_GenericMode);
  graph::TensorType type = graph::TensorType::of(wrapped_number(now));
  type.number = type.unsized = true;
  const graph::ValueId id = graph_->add_value({type, fmt::format("number_{}", graph_->nodes.size())});
  known_order_.resize(graph_->values.size());
  known->second = id;
  host_numbers_[id] = now;
  data_sizes_.add_number(id, now);
  graph::Node node{c10::Dispatcher::singleton().findSchemaOrThrow(op.c_str(), ""), std::move(arguments), {id}, {-1}, {}, source_};
  node.mode.grad_enabled = c10::GradMode::is_enabled();
  node.mode.inference = c10::InferenceMode::is_enabled();
  graph_->nodes.push_back(std::move(node));
  return {id, now};
}

OperatorRecorder::Number OperatorRecorder::add_element(const at::Tensor& of, std::int64_t index, const c10::Scalar& now) {
  return add_number("dynrun::number", {graph::Argument::reference(value_of(of)), graph::Argument::constant(index)}, now);
}

OperatorRecorder::Number OperatorRecorder::add_size(const at::Tensor& of, std::int64_t dimension) {
  const std::size_t before = numbers_.size();
  const Number number = add_number("dynrun::size", {graph::Argument::reference(value_of(of)), graph::Argument::constant(dimension)}, of.size(dimension));
  if (numbers_.size() > before) data_sizes_.add_size(number.value, find(of), static_cast<std::size_t>(dimension), of.size(dimension));
  return number;
}

OperatorRecorder::Number OperatorRecorder::add_host(std::int32_t host, const c10::Scalar& now) {
  const c10::impl::ExcludeDispatchKeyGuard unrecorded(c10::DispatchKey::TESTING_ONLY_GenericMode);
  return {host_input(host, now, !now.isFloatingPoint()).value(), now};
}

c10::Scalar recorded_number(const graph::Node& node) { return node.arguments.back().constant().toScalar(); }

OperatorRecorder::Number OperatorRecorder::add_arithmetic(const std::string& how, const Number& left, const Number& right, const c10::Scalar& now) {
  return add_number("dynrun::arithmetic", {graph::Argument::constant(how), as_argument(left), as_argument(right)}, now);
}

bool OperatorRecorder::offers_data() const {
  const bool given = std::any_of(host_arguments.begin(), host_arguments.end(), [](const HostArgument& host) { return host.data != graph::kNoValue; });
  return given || std::any_of(index_parts.begin(), index_parts.end(), [](const IndexPart& part) {
    return std::any_of(part.numbers.begin(), part.numbers.end(), [](const IndexNumber& number) { return number.data != graph::kNoValue; });
  });
}

bool OperatorRecorder::took_data_indices() const {
  return std::all_of(index_parts.begin(), index_parts.end(), [](const IndexPart& part) {
    return std::all_of(part.numbers.begin(), part.numbers.end(), [](const IndexNumber& number) { return number.data == graph::kNoValue || number.bound; });
  });
}

/// torch asks a tensor that stands where an operator takes a number: the number goes to the operator.
bool OperatorRecorder::answer_item(const c10::OperatorHandle& op, torch::jit::Stack* stack, std::size_t first) {
  if (op.schema().name() != "aten::item" || host_calls_ != 0) return false;
  const at::Tensor of = (*stack)[first].toTensor();
  auto is_it = [&](const HostArgument& host) { return host.tensor != graph::kNoValue && host.tensor == find(of); };
  if (std::none_of(host_arguments.begin(), host_arguments.end(), is_it)) return false;
  op.callBoxed(stack);
  answered_++;
  const c10::Scalar now = stack->back().toScalar();
  const Number number = add_element(of, 0, now);
  for (HostArgument& host : host_arguments) {
    if (is_it(host)) host.value = now, host.data = number.value;
  }
  return true;
}

}  // namespace dynrun::trace
