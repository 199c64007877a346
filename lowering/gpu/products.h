#pragma once
// Products of matrices on a GPU: what cuBLASLt does faster than libtorch's own call, and where a bias is added.

#include "lowering/extern/library_kernel.h"

namespace dynrun::lowering::gpu {

/// Gives a float32 product its bias in an addition behind it, where both take less time than the product that adds it: without an
/// epilogue libraries have faster kernels, and the addition fuses with what follows. Half types keep theirs: it adds before it rounds.
void split_biases(Program& program);

/// Adds to `claims` the products for which cuBLASLt has a kernel that is faster than libtorch's choice.
void claim_products(const Program& program, std::vector<LibraryKernel>& claims);

}  // namespace dynrun::lowering::gpu
