#pragma once
// Checks of a tensor's value: `if not torch.all(x > 0): raise ValueError(...)`, `assert mask.any()`, `assert x.max().item() <= 5`. A branch whose other side does nothing
// but raise is recorded as if it always went the way that it goes now, and the operator dynrun::require_truth raises in a replay where it
// does not: the VM runs the code instead then. After a few times the place is not assumed about again.

#include "bytecode/code.h"

#include <cstdint>

namespace dynrun::trace {

/// Whether the conditional jump at `jump`, given that truth, passes by code that builds an exception and raises it out of its function.
bool passes_by_raise(const bytecode::Code& code, std::int32_t jump, bool truth);

/// Names an instruction for dynrun::require_truth.
std::int64_t place_of_jump(const bytecode::Code& code, std::int32_t jump);

}  // namespace dynrun::trace
