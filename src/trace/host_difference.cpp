#include "trace/host_difference.h"

#include <opcode.h>

#include <algorithm>
#include <map>

namespace dynrun::trace {
namespace {

/// A sum of host values, each so many times, and a number.
struct Sum {
  std::map<HostId, std::int64_t> terms;
  std::int64_t number = 0;

  bool is_number() const { return terms.empty(); }
};

std::optional<Sum> scaled(Sum sum, std::int64_t factor) {
  bool overflow = __builtin_mul_overflow(sum.number, factor, &sum.number);
  for (auto& [id, times] : sum.terms) overflow = overflow || __builtin_mul_overflow(times, factor, &times);
  if (factor == 0) sum.terms.clear();
  return overflow ? std::nullopt : std::optional(std::move(sum));
}

std::optional<Sum> plus(Sum a, const Sum& b) {
  bool overflow = __builtin_add_overflow(a.number, b.number, &a.number);
  for (const auto& [id, times] : b.terms) {
    std::int64_t& here = a.terms[id];
    overflow = overflow || __builtin_add_overflow(here, times, &here);
    if (here == 0) a.terms.erase(id);
  }
  return overflow ? std::nullopt : std::optional(std::move(a));
}

std::optional<std::int64_t> number_of(PyObject* object) {
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 ? std::optional<std::int64_t>(number) : std::nullopt;
}

bool is_sum(const HostStep& step) {
  return step.type == &PyLong_Type && (step.kind == HostKind::kBinary || step.kind == HostKind::kNegative);
}

/// Of a step whose operands' sums are known. Nothing where numbers are too large.
std::optional<Sum> step_sum(HostId id, const HostStep& step, const std::map<HostId, Sum>& known) {
  const Sum itself{{{id, 1}}, 0};
  if (step.kind == HostKind::kConstant && PyLong_CheckExact(step.object.get())) {
    std::optional<std::int64_t> number = number_of(step.object.get());
    return number ? std::optional(Sum{{}, *number}) : std::nullopt;
  }
  if (!is_sum(step)) return itself;
  std::vector<Sum> operands;
  for (HostId operand : step.operands) operands.push_back(known.at(operand));
  if (step.kind == HostKind::kNegative) return scaled(std::move(operands[0]), -1);
  switch (step.index) {
    case NB_ADD:
    case NB_INPLACE_ADD: return plus(std::move(operands[0]), operands[1]);
    case NB_SUBTRACT:
    case NB_INPLACE_SUBTRACT: {
      std::optional<Sum> less = scaled(std::move(operands[1]), -1);
      return less ? plus(std::move(operands[0]), *less) : std::nullopt;
    }
    case NB_MULTIPLY:
    case NB_INPLACE_MULTIPLY:
      if (operands[1].is_number()) return scaled(std::move(operands[0]), operands[1].number);
      if (operands[0].is_number()) return scaled(std::move(operands[1]), operands[0].number);
      return itself;
    default: return itself;
  }
}

/// Adds, subtracts and multiplies by numbers; all else is a term of its own. Nothing where numbers are too large.
std::optional<Sum> sum_of(const HostProgram& host, HostId id) {
  std::vector<HostId> parts;
  host.visit_parts({id}, [&](HostId part, const HostStep& step) {
    parts.push_back(part);
    return is_sum(step);
  });
  std::map<HostId, Sum> sums;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    std::optional<Sum> sum = step_sum(*part, host.steps()[static_cast<std::size_t>(*part)], sums);
    if (!sum) return std::nullopt;
    sums.emplace(*part, std::move(*sum));
  }
  return sums.at(id);
}

}  // namespace

std::optional<std::int64_t> constant_difference(const HostProgram& host, HostId a, HostId b) {
  std::optional<Sum> from = sum_of(host, b), to = sum_of(host, a);
  if (from) from = scaled(std::move(*from), -1);
  if (!from || !to) return std::nullopt;
  const std::optional<Sum> difference = plus(std::move(*to), *from);
  return difference && difference->is_number() ? std::optional(difference->number) : std::nullopt;
}

}  // namespace dynrun::trace
