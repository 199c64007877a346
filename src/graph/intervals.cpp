#include "graph/intervals.h"

#include "graph/operators.h"
#include "graph/visit.h"
#include "graph/writes.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

namespace dynrun::graph {
namespace {

using Names = std::unordered_set<std::string_view>;
using Rule = std::optional<Interval>;

Rule join(const Rule& a, const Rule& b) {
  if (!a || !b) return std::nullopt;
  return Interval{std::min(a->low, b->low), std::max(a->high, b->high)};
}

/// Both ends of what an operation that grows or falls in each operand can give; nothing where one of them overflows.
template <typename Operation>
Rule by_corners(const Rule& a, const Rule& b, const Operation& overflows) {
  if (!a || !b) return std::nullopt;
  Rule all;
  for (std::int64_t x : {a->low, a->high}) {
    for (std::int64_t y : {b->low, b->high}) {
      std::int64_t result = 0;
      if (overflows(x, y, &result)) return std::nullopt;
      all = all ? join(all, Interval{result, result}) : Rule(Interval{result, result});
    }
  }
  return all;
}

std::int64_t floor_divided(std::int64_t a, std::int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0)) ? 1 : 0); }

class Walk {
 public:
  explicit Walk(const Graph& graph) : graph_(graph) {
    for (const Node& node : graph.nodes) {
      for (ValueId output : node.outputs) {
        if (output != kNoValue) makers_.try_emplace(output, &node);
      }
    }
  }

  Rule of(ValueId id) {
    if (id == kNoValue || !graph_.values[static_cast<std::size_t>(id)].is_tensor()) return std::nullopt;
    auto known = known_.find(id);
    if (known != known_.end()) return known->second;
    known_[id] = std::nullopt;
    return known_[id] = within_type(id, made(id));
  }

  /// Whether something is written to memory that one of the values looked at may lie in.
  bool any_written() {
    std::set<ValueId> looked_at;
    for (const auto& [id, interval] : known_) {
      if (interval) add_roots(id, looked_at);
    }
    for (const Node& node : graph_.nodes) {
      const auto& formals = node.op.schema().arguments();
      for (std::size_t i = 0; i < formals.size(); i++) {
        if (!is_written(formals[i])) continue;
        std::set<ValueId> written;
        visit_values(node.arguments[i], [&](ValueId id) { add_roots(id, written); });
        if (std::any_of(written.begin(), written.end(), [&](ValueId id) { return looked_at.count(id) != 0; })) return true;
      }
    }
    return false;
  }

 private:
  const Node* maker(ValueId id) const {
    auto at = makers_.find(id);
    return at == makers_.end() ? nullptr : at->second;
  }

  /// The values whose memory this one may lie in.
  void add_roots(ValueId id, std::set<ValueId>& roots) const {
    if (!roots.insert(id).second) return;
    const Node* node = maker(id);
    if (node == nullptr || !may_give_argument(node->op)) return;
    visit_values(*node, [&](ValueId argument) { add_roots(argument, roots); });
  }

  /// What the type alone says, and whether it can hold the numbers.
  Rule within_type(ValueId id, const Rule& interval) const {
    const c10::ScalarType type = graph_.type_of(id).dtype;
    if (type == at::kBool) return Interval{0, 1};
    if (type == at::kByte) return Interval{0, 255};
    return type == at::kLong ? interval : std::nullopt;
  }

  Rule made(ValueId id) {
    const Node* node = maker(id);
    if (node == nullptr || node->op.schema().is_mutable()) return std::nullopt;
    const std::string_view name = base_name(node->op);
    static const Names same = {"view", "reshape", "unsqueeze", "squeeze", "expand", "expand_as", "select", "slice", "transpose", "permute", "t", "contiguous", "clone", "alias", "flatten",
                               "repeat", "repeat_interleave", "detach", "gather", "index_select", "take_along_dim", "narrow", "flip", "roll", "unbind", "split", "chunk", "view_as", "index"};
    static const Names places = {"topk", "sort", "max", "min"}, first_places = {"argsort", "argmax", "argmin"};
    const bool counts_up = name == "repeat_interleave" && node->op.operator_name().overload_name == "Tensor";  // gives places, of counts
    const bool reads_bits = name == "view" && node->op.operator_name().overload_name == "dtype";
    if (same.count(name) != 0 && !counts_up && !reads_bits) return of(tensor(*node, 0));
    if (places.count(name) != 0 && node->outputs.size() == 2 && node->outputs[1] == id) return place(*node);
    if (first_places.count(name) != 0) return place(*node);
    if (name == "arange") return counted(*node);
    if (name == "zeros" || name == "zeros_like") return Interval{0, 0};
    if (name == "ones" || name == "ones_like") return Interval{1, 1};
    if (name == "full" || name == "full_like") return operand(*node, 1);
    if (name == "to") return c10::isIntegralType(type(tensor(*node, 0)), true) ? of(tensor(*node, 0)) : std::nullopt;
    if (name == "where" && node->arguments.size() == 3) return join(operand(*node, 1), operand(*node, 2));
    if (name == "cat" || name == "concat" || name == "stack") return joined(node->arguments[0]);
    return computed(*node, name);
  }

  c10::ScalarType type(ValueId id) const { return id == kNoValue ? at::kFloat : graph_.type_of(id).dtype; }

  static ValueId tensor(const Node& node, std::size_t at) { return at < node.arguments.size() && node.arguments[at].is_value() ? node.arguments[at].value() : kNoValue; }

  /// A tensor or a constant number.
  Rule operand(const Node& node, std::size_t at) {
    if (at >= node.arguments.size()) return std::nullopt;
    if (node.arguments[at].is_value()) return of(node.arguments[at].value());
    if (!node.arguments[at].is_constant()) return std::nullopt;
    const c10::IValue& value = node.arguments[at].constant();
    if (value.isBool()) return Interval{value.toBool(), value.toBool()};
    return value.isInt() ? Rule(Interval{value.toInt(), value.toInt()}) : std::nullopt;
  }

  Rule joined(const Argument& list) {
    if (!list.is_list() || list.items().empty()) return std::nullopt;
    Rule all;
    for (const Argument& item : list.items()) {
      const Rule one = item.is_value() ? of(item.value()) : std::nullopt;
      if (!one) return std::nullopt;
      all = all ? join(all, one) : one;
    }
    return all;
  }

  /// A place along the dimension that the operator goes through; without one, in the whole tensor.
  Rule place(const Node& node) const {
    const ValueId from = tensor(node, 0);
    if (from == kNoValue || graph_.type_of(from).unsized) return std::nullopt;
    const TensorType& type = graph_.type_of(from);
    const auto& formals = node.op.schema().arguments();
    auto formal = std::find_if(formals.begin(), formals.end(), [](const c10::Argument& one) { return one.name() == "dim"; });
    std::int64_t count = type.element_count();
    if (formal != formals.end()) {
      const Argument& argument = node.arguments[static_cast<std::size_t>(formal - formals.begin())];
      if (!argument.is_constant()) return std::nullopt;
      const auto rank = static_cast<std::int64_t>(type.sizes.size());
      if (argument.constant().isInt() && rank > 0) {
        std::int64_t dimension = argument.constant().toInt();
        if (dimension < 0) dimension += rank;
        count = type.sizes.at(static_cast<std::size_t>(dimension));
      }
    }
    return Interval{0, std::max<std::int64_t>(count - 1, 0)};
  }

  Rule counted(const Node& node) {
    const std::string& overload = node.op.operator_name().overload_name;
    const Rule start = overload.empty() ? Rule(Interval{0, 0}) : operand(node, 0);
    const Rule end = operand(node, overload.empty() ? 0 : 1), step = overload == "start_step" ? operand(node, 2) : Rule(Interval{1, 1});
    if ((!overload.empty() && overload != "start" && overload != "start_step") || !start || !end || !step || step->low <= 0) return std::nullopt;
    return Interval{start->low, std::max(start->high, end->high - 1)};
  }

  Rule computed(const Node& node, std::string_view name) {
    const Rule a = operand(node, 0), b = operand(node, 1);
    if (name == "add" || name == "sub") {
      const bool plain = node.arguments.size() < 3 || (node.arguments[2].is_constant() && node.arguments[2].constant().isInt() && node.arguments[2].constant().toInt() == 1);
      if (!plain) return std::nullopt;
      const bool adds = name == "add";
      return by_corners(a, b, [adds](std::int64_t x, std::int64_t y, std::int64_t* z) { return adds ? __builtin_add_overflow(x, y, z) : __builtin_sub_overflow(x, y, z); });
    }
    if (name == "mul") return by_corners(a, b, [](std::int64_t x, std::int64_t y, std::int64_t* z) { return __builtin_mul_overflow(x, y, z); });
    const bool by_constant = b && b->low == b->high && b->low > 0 && node.arguments.size() == 2;
    if (name == "floor_divide" && a && by_constant) return Interval{floor_divided(a->low, b->low), floor_divided(a->high, b->low)};
    if (name == "remainder" && by_constant && c10::isIntegralType(type(tensor(node, 0)), false)) return Interval{0, b->low - 1};
    const bool pair = node.op.operator_name().overload_name == "other" || name == "maximum" || name == "minimum";
    if ((name == "minimum" || name == "min") && pair && a && b) return Interval{std::min(a->low, b->low), std::min(a->high, b->high)};
    if ((name == "maximum" || name == "max") && pair && a && b) return Interval{std::max(a->low, b->low), std::max(a->high, b->high)};
    return std::nullopt;
  }

  const Graph& graph_;
  std::unordered_map<ValueId, const Node*> makers_;
  std::unordered_map<ValueId, Rule> known_;
};

}  // namespace

std::optional<Interval> interval_of(const Graph& graph, ValueId id) {
  Walk walk(graph);
  const std::optional<Interval> interval = walk.of(id);
  return interval && !walk.any_written() ? interval : std::nullopt;
}

bool holds(const Graph& graph, const RangeProof& proof) {
  const TensorType& type = graph.type_of(proof.of);
  if (type.unsized) return false;
  const auto rank = static_cast<std::int64_t>(type.sizes.size());
  const std::int64_t dimension = proof.dimension < 0 ? proof.dimension + rank : proof.dimension;
  if (rank > 0 && (dimension < 0 || dimension >= rank)) return false;
  const std::int64_t size = rank == 0 ? 1 : type.sizes[static_cast<std::size_t>(dimension)];
  const std::optional<Interval> interval = interval_of(graph, proof.index);
  return interval && interval->low >= 0 && interval->high < size;
}

}  // namespace dynrun::graph
