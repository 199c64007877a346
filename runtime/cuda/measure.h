#pragma once
// How long something takes on a GPU.

#include "runtime/executable.h"

#include <functional>
#include <string>

namespace dynrun::runtime::cuda {

/// What the device calls itself.
std::string name_of(int device);

/// Whether work may be waited for: not while the program captures the current stream.
bool can_measure();

/// Seconds of one run on these inputs, after runs that are not counted. The executable may leave no trace.
double seconds_of(Executable& executable, c10::ArrayRef<at::Tensor> inputs, int device);

/// Seconds of one of so many turns of `work`, which only launches, on the current stream; a turn before them is not counted.
double seconds_of_work(const std::function<void(int turn)>& work, int turns, int device);

}  // namespace dynrun::runtime::cuda
