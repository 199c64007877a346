#pragma once
// What each ATen operator means as tensor expressions. An operator without a rule is called through the dispatcher.

#include "lowering/loops/expression.h"
#include "lowering/program.h"

#include <optional>
#include <string_view>

namespace dynrun::lowering {

/// Thrown by a rule that does not cover a case; the node is then called through the dispatcher.
struct NotCovered {};

/// A node as its rule sees it: arguments by name, torch's type promotion, and the definitions it makes.
class RuleContext {
 public:
  RuleContext(const Program& program, const graph::Node& node) : program_(program), node_(node) {}

  const graph::Argument* find(std::string_view name) const;  // null when the schema has no such argument
  const graph::Argument& at(std::string_view name) const;
  bool has(std::string_view name) const;  // given and not None
  bool is_tensor(std::string_view name) const;
  Expr tensor(std::string_view name) const;  // a tensor argument
  graph::ValueId value(std::string_view name) const;
  const graph::TensorType& type(std::string_view name) const;
  /// A Scalar, int, float or bool constant.
  const c10::IValue& scalar(std::string_view name) const;
  double number(std::string_view name, double otherwise = 0) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise = 0) const;
  bool flag(std::string_view name, bool otherwise = false) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  /// A tensor or a Scalar, cast to the type `dtype` is computed in.
  Expr operand(std::string_view name, c10::ScalarType dtype) const;
  Expr operand(const graph::Argument& argument, c10::ScalarType dtype) const;
  /// The same where torch converts a number to the tensors' dtype and raises if it does not fit: one that is another on each replay
  /// has to fit whatever it is, else the operator is not covered. `of_tensor`: so does a tensor of one number.
  Expr fitting(std::string_view name, c10::ScalarType dtype, bool of_tensor = false) const;
  /// torch.result_type of the arguments named.
  c10::ScalarType promoted(std::initializer_list<std::string_view> names) const;

  const graph::TensorType& out(std::size_t index = 0) const;
  /// Result `index` is `expression`, cast to the result's dtype (rounding a half type).
  void define(Expr expression, std::size_t index = 0);
  /// The expression's sizes differ from the result's, but its elements in row-major order are the result's in memory order.
  void define_reshaped(Expr expression, std::size_t index = 0);
  /// A reduction that kept its reduced dimensions, for a result that may not have them.
  void define_reduced(Expr expression, const std::vector<bool>& reduced, std::size_t index = 0);
  /// A part of the result's buffer.
  void define_part(Expr expression, Sizes strides, std::int64_t offset, std::size_t index = 0);

  const graph::Node& node() const { return node_; }
  const Program& program() const { return program_; }
  std::vector<Definition> take() { return std::move(definitions_); }

 private:
  const Program& program_;
  const graph::Node& node_;
  std::vector<Definition> definitions_;
};

using Rule = void (*)(RuleContext&);
/// Rules by operator name ("aten::softmax.int", or "aten::softmax" for all overloads).
using RuleTable = std::unordered_map<std::string_view, Rule>;
const RuleTable& pointwise_rules();
const RuleTable& reduction_rules();
const RuleTable& copy_rules();
const RuleTable& pooling_rules();
const RuleTable& convolution_rules();

/// The definitions of a node's results; none when no rule covers it. A result nobody defines must be unused.
std::optional<std::vector<Definition>> decompose(const Program& program, const graph::Node& node);

/// Reduced dimensions as a mask; an empty list means all.
std::vector<bool> dimension_mask(const std::vector<std::int64_t>& dimensions, std::size_t rank);

}  // namespace dynrun::lowering
