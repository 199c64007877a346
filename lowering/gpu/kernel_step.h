#pragma once
// Compiled kernels as steps of a run on a GPU.

#include "lowering/unsized_step.h"

#include <memory>

namespace dynrun::lowering::gpu {

/// One step a kernel, in order. A kernel's buffers are the slots of their values.
std::vector<std::unique_ptr<runtime::Step>> make_kernel_steps(std::vector<Kernel> kernels, int device, const Options& options);

/// A kernel over one loop, for as many elements as a run has.
std::unique_ptr<ElementsFunction> make_elements_function(Kernel kernel, int device, const Options& options);

/// Gives the PTX of kernels to `dump`, as stage "ptx". Needs no GPU.
void dump_ptx(const std::vector<Kernel>& kernels, const std::function<void(const std::string&, const std::string&)>& dump);

}  // namespace dynrun::lowering::gpu
