#pragma once
// How long something takes on a GPU.

#include "runtime/executable.h"

namespace dynrun::runtime::cuda {

/// Seconds of one run on these inputs, after runs that are not counted. The executable may leave no trace.
double seconds_of(Executable& executable, c10::ArrayRef<at::Tensor> inputs, int device);

}  // namespace dynrun::runtime::cuda
