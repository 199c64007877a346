#pragma once
// A compiled kernel as a step of a run.

#include "lowering/cpu/jit.h"
#include "runtime/step.h"

#include <memory>

namespace dynrun::lowering::cpu {

/// `slots`: the slot of each of the kernel's buffers. `arguments`: of the function.
std::unique_ptr<runtime::Step> make_kernel_step(const Kernel& kernel, KernelFunction function, std::vector<std::int64_t> arguments,
                                                std::vector<runtime::SlotId> slots);

}  // namespace dynrun::lowering::cpu
