#pragma once
// Loop IR to PTX: LLVM's NVPTX back end, with libdevice's mathematics linked in.

#include "lowering/gpu/launch.h"
#include "runtime/cuda/module.h"

#include <functional>
#include <memory>
#include <string>

namespace dynrun::lowering::gpu {

struct Compilation {
  const Kernel* form;  // may name arguments
  CodeShape shape;
};

/// A kernel in a module of its own.
struct Function {
  std::shared_ptr<runtime::cuda::Module> module;
  std::string name;
};

using Dump = std::function<void(const std::string& stage, const std::string& text)>;
/// The threads that compile, and those that assemble, at once.
constexpr std::size_t kMostThreads = 16;
/// One function a kernel, in order; equal ones share one, within the call and with earlier calls, and what an earlier process made
/// comes from the disk. `architecture`: the compute capability as 10 * major + minor, such as 90. `dump` gets the texts of "llvm" and
/// "asm" when set.
std::vector<Function> compile(const std::vector<Compilation>& kernels, int architecture, const Dump& dump);

}  // namespace dynrun::lowering::gpu
