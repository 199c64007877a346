#pragma once
// What a run of a compiled graph does, in a form to be shown to people: its steps, and which memory holds what while they run.

#include "lowering/schedule.h"

namespace dynrun::lowering {

/// For each value the units of its life, -1 where it has none.
struct Lives {
  std::vector<std::int32_t> first, last;
};

/// The picture of `plan`, whose actions are those of `units`. `owner` tells whose buffer in the arena a value lies in.
Picture picture_of(const Program& program, const std::vector<Unit>& units, const runtime::Plan& plan, const Lives& lives,
                   const std::function<graph::ValueId(graph::ValueId)>& owner);

}  // namespace dynrun::lowering
