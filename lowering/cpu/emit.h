#pragma once
// Loop IR to LLVM IR.

#include "lowering/cpu/jit.h"

#include <llvm/IR/Module.h>

namespace dynrun::lowering::cpu {

/// Adds the kernel to `module` as a KernelFunction of that name.
void emit_kernel(const Compilation& kernel, const Target& target, llvm::Module& module, const std::string& name);

}  // namespace dynrun::lowering::cpu
