#pragma once
// Compiled kernels as steps of a run.

#include "lowering/cpu/jit.h"
#include "runtime/step.h"

#include <memory>

namespace dynrun::lowering::cpu {

/// One step a kernel, in order. A kernel's buffers are the slots of their values.
std::vector<std::unique_ptr<runtime::Step>> make_kernel_steps(const std::vector<Kernel>& kernels, const Options& options);

}  // namespace dynrun::lowering::cpu
