#pragma once
// Products of oddly many features, a vocabulary of 50257 words say.
//
// A row of the result begins where the one before it ends, where that is no multiple of 16 bytes at another place of its 16 bytes:
// libraries then store single elements. But every eighth row (of half types) begins at the same place: those together are a
// product whose rows are a multiple of 16 bytes apart, and which begins where its first row has a multiple of 16 bytes. The
// few features at either end are products of their own.

#include "lowering/extern/library_kernel.h"

namespace dynrun::lowering::gpu {

/// result[rows, features] = input[rows, depth] @ weight[features, depth]^T; all contiguous, of one half type, on one device.
void multiply_rows_apart(at::Tensor result, const at::Tensor& input, const at::Tensor& weight);

/// Adds to `claims` the linears without a bias that may be faster so: of half types, oddly many features and many rows. Gives whether
/// there are any.
bool claim_rows_apart(const Program& program, std::vector<LibraryKernel>& claims);

}  // namespace dynrun::lowering::gpu
