#pragma once

#include <llvm/ADT/StringRef.h>

namespace dynrun::lowering::gpu {

/// NVIDIA's library of device mathematics as LLVM bitcode, part of the program since its build.
llvm::StringRef libdevice();

}  // namespace dynrun::lowering::gpu
