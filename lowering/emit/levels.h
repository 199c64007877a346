#pragma once
// The passes over a row that a kernel takes.

#include "lowering/loops/loop.h"

#include <set>

namespace dynrun::lowering::emit {

/// What one pass makes: reductions that end with it, stores of one element each inner iteration.
struct Level {
  std::vector<std::int32_t> reductions;
  std::vector<std::size_t> stores;
  std::set<std::int32_t> row_needs;  // row values that the pass reads
  bool used() const { return !reductions.empty() || !stores.empty(); }
};

/// In order: level n needs what the reductions of the levels before it give.
std::vector<Level> levels_of(const Kernel& kernel);

/// The inner values that a pass computes.
std::vector<std::int32_t> roots(const Kernel& kernel, const Level& level);

}  // namespace dynrun::lowering::emit
