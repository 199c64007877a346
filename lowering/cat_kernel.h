#pragma once
// Concatenation as one call of libtorch's kernel into a planned buffer, for parts that lie in memory anyway.

#include "lowering/extern/library_kernel.h"

namespace dynrun::lowering {

/// Nothing when `node` is no concatenation of that kind.
std::optional<LibraryKernel> cat_kernel(const Program& program, std::int32_t node);

/// The tensors that a cat or stack node joins; empty for other nodes.
std::vector<graph::ValueId> concatenated(const graph::Node& node);

}  // namespace dynrun::lowering
