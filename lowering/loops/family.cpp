#include "lowering/loops/family.h"

#include <fmt/format.h>

#include <bit>
#include <set>

namespace dynrun::lowering {
namespace {

/// number(place) for sizes, strides and offsets, constant(op) for constants, always in the same order.
template <typename AnyKernel, typename Number, typename Constant>
void visit_numbers(AnyKernel& kernel, const Number& number, const Constant& constant) {
  for (auto& size : kernel.dims) number(size);
  auto visit_access = [&](auto& access) {
    for (auto& stride : access.strides) number(stride);
    number(access.offset);
  };
  for (auto& op : kernel.ops) {
    if (op.kind == ExpressionKind::kLoad) visit_access(op.access);
    if (op.kind == ExpressionKind::kConstant) constant(op);
  }
  for (auto& store : kernel.stores) visit_access(store.access);
}

std::int64_t bits_of(const LoopOp& constant) {
  return c10::isFloatingType(constant.dtype) ? std::bit_cast<std::int64_t>(constant.number) : constant.integer;
}

/// Which loops an access walks, and along which it is dense, is structure.
std::string structure_of(Kernel kernel) {
  auto hide = [](Access& access) {
    for (std::int64_t& stride : access.strides) {
      if (stride != 0 && stride != 1) stride = argument(0);
    }
    access.offset = argument(0);
  };
  for (std::int64_t& size : kernel.dims) size = argument(0);
  for (LoopOp& op : kernel.ops) {
    if (op.kind == ExpressionKind::kLoad) hide(op.access);
    if (op.kind == ExpressionKind::kConstant) op.argument = 0;
  }
  for (LoopStore& store : kernel.stores) hide(store.access);
  return print(kernel);
}

}  // namespace

std::vector<std::int64_t> numbers_of(const Kernel& kernel) {
  std::vector<std::int64_t> numbers;
  visit_numbers(
      kernel, [&](std::int64_t number) { numbers.push_back(number); }, [&](const LoopOp& op) { numbers.push_back(bits_of(op)); });
  return numbers;
}

std::size_t Kernel::argument_count() const {
  std::size_t count = 0;
  visit_numbers(
      *this, [&](std::int64_t number) { count = std::max(count, is_argument(number) ? argument_index(number) + 1 : 0); },
      [&](const LoopOp& op) { count = std::max(count, static_cast<std::size_t>(op.argument + 1)); });
  return count;
}

bool KernelFamily::fits(const std::vector<std::int64_t>& numbers) const {
  if (members_.empty()) return false;
  std::vector<std::optional<std::int64_t>> given(static_cast<std::size_t>(arguments_));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (argument_of_[i] < 0) {
      if (numbers[i] != members_.front()[i]) return false;
      continue;
    }
    std::optional<std::int64_t>& value = given[static_cast<std::size_t>(argument_of_[i])];
    if (value && *value != numbers[i]) return false;
    value = numbers[i];
  }
  return true;
}

void KernelFamily::generalise() {
  std::map<std::vector<std::int64_t>, std::int32_t> known;  // by what the number was in each member
  argument_of_.assign(members_.front().size(), -1);
  for (std::size_t i = 0; i < argument_of_.size(); ++i) {
    std::vector<std::int64_t> values;
    for (const auto& member : members_) values.push_back(member[i]);
    if (std::all_of(values.begin(), values.end(), [&](std::int64_t value) { return value == values.front(); })) continue;
    argument_of_[i] = known.emplace(std::move(values), static_cast<std::int32_t>(known.size())).first->second;
  }
  arguments_ = static_cast<std::int32_t>(known.size());
}

GeneralKernel KernelFamily::admit(const Kernel& member) {
  const std::vector<std::int64_t> numbers = numbers_of(member);
  if (!fits(numbers)) {
    members_.push_back(numbers);
    generalise();
  }
  GeneralKernel general{member, std::vector<std::int64_t>(static_cast<std::size_t>(arguments_))};
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (argument_of_[i] >= 0) general.arguments[static_cast<std::size_t>(argument_of_[i])] = numbers[i];
  }
  std::size_t next = 0;
  visit_numbers(
      general.form,
      [&](std::int64_t& number) {
        const std::int32_t index = argument_of_[next++];
        if (index >= 0) number = argument(static_cast<std::size_t>(index));
      },
      [&](LoopOp& op) { op.argument = argument_of_[next++]; });
  return general;
}

GeneralKernel KernelFamilies::admit(const Kernel& kernel, const std::string& structure_class) {
  std::string key = structure_class + structure_of(kernel);
  const int which = met_[key]++;
  return families_[key + std::to_string(which)].admit(kernel);
}

}  // namespace dynrun::lowering
