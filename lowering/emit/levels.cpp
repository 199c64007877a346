#include "lowering/emit/levels.h"

namespace dynrun::lowering::emit {
namespace {

void find_row_needs(const Kernel& kernel, std::int32_t id, Level& level, std::set<std::int32_t>& seen) {
  if (!seen.insert(id).second) return;
  const LoopOp& op = kernel.ops[static_cast<std::size_t>(id)];
  if (!op.inner) {
    if (op.kind != ExpressionKind::kConstant) level.row_needs.insert(id);
    return;
  }
  for (std::int32_t argument : op.arguments) find_row_needs(kernel, argument, level, seen);
}

}  // namespace

std::vector<std::int32_t> roots(const Kernel& kernel, const Level& level) {
  std::vector<std::int32_t> out;
  for (std::int32_t id : level.reductions) out.push_back(kernel.ops[static_cast<std::size_t>(id)].arguments[0]);
  for (std::size_t store : level.stores) out.push_back(kernel.stores[store].op);
  return out;
}

std::vector<Level> levels_of(const Kernel& kernel) {
  std::vector<Level> levels(static_cast<std::size_t>(kernel.levels()) + 1);
  for (std::size_t i = 0; i < kernel.ops.size(); ++i) {
    if (kernel.ops[i].kind == ExpressionKind::kReduce) {
      levels[static_cast<std::size_t>(kernel.ops[i].level) - 1].reductions.push_back(static_cast<std::int32_t>(i));
    }
  }
  for (std::size_t i = 0; i < kernel.stores.size(); ++i) {
    const LoopStore& store = kernel.stores[i];
    if (store.inner) levels[static_cast<std::size_t>(kernel.ops[static_cast<std::size_t>(store.op)].level)].stores.push_back(i);
  }
  for (Level& level : levels) {
    std::set<std::int32_t> seen;
    for (std::int32_t id : roots(kernel, level)) find_row_needs(kernel, id, level, seen);
  }
  return levels;
}

}  // namespace dynrun::lowering::emit
