#pragma once
// Kernels over tensors whose size only a run knows: chains of elementwise operators on the result of a mask, of nonzero, of unique.

#include "lowering/extern/library_kernel.h"

namespace dynrun::lowering {

/// Adds to `claims` one call for each chain of at least two elementwise nodes that share their run-time size; nodes that
/// somebody claimed already stay his.
void claim_unsized_chains(const Program& program, std::vector<LibraryKernel>& claims);

}  // namespace dynrun::lowering
