#pragma once
// Which graph breaks torch.compile has too: a script's own fullgraph=True is about those.

#include "bytecode/code.h"
#include "report/breaks.h"

#include <cstdint>
#include <string_view>

namespace dynrun::trace {

/// Whether torch.compile(fullgraph=True) raises at a break of that kind, met at instruction `pc`. It captures numbers that are read from
/// tensors (`int(t)`, `.item()`, `max(a, b)`) and what is asserted of them; it cannot go on where the number itself is needed: in a branch, a
/// loop, a text, a key. Code that asks whether it is being compiled takes another way there.
bool breaks_in_torch(report::BreakId id, std::string_view detail, const bytecode::Code& code, std::int32_t pc);

}  // namespace dynrun::trace
