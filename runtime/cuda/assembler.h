#pragma once
// PTX to machine code before a kernel is needed: by nvJitLink, which comes with torch, and kept on disk.

#include <string>

namespace dynrun::runtime::cuda {

/// The code of `ptx` for a device of that compute capability (10 * major + minor), to be loaded like the PTX. Empty where there is
/// no nvJitLink of CUDA 12 or later or it refuses: the driver compiles the PTX then. For several threads at once.
std::string assemble(const std::string& ptx, int architecture);

}  // namespace dynrun::runtime::cuda
