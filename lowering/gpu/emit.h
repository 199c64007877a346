#pragma once
// Loop IR to LLVM IR for NVPTX.

#include "lowering/gpu/launch.h"

#include <llvm/IR/Module.h>

namespace dynrun::lowering::gpu {

/// Adds the kernel to `module` as a CUDA kernel of that name. Its parameters are the buffers' addresses, then the numbers that the
/// form names as arguments (int64). `target`: the compute capability that it is for, as 10 * major + minor.
void emit_kernel(const Kernel& form, const CodeShape& shape, int target, llvm::Module& module, const std::string& name);

}  // namespace dynrun::lowering::gpu
