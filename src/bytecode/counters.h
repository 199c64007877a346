#pragma once
// Which locals are another number on every turn of a loop.

#include "bytecode/code.h"

namespace dynrun::bytecode {

/// Fills `code.counted_from`, from its instructions.
void find_counters(Code& code);

}  // namespace dynrun::bytecode
