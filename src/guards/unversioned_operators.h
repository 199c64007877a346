#pragma once
// Operators that write what they are given while nothing moves its version counter: some of libtorch's own, and those of other libraries
// (TORCH_LIBRARY), whose schemas may not even say so. Kernels in the dispatcher count such writes for what was folded (storage_watch.h).

#include <ATen/core/dispatch/Dispatcher.h>

namespace dynrun::guards {

/// Whether an operator of another library has nothing to give for what it takes, or is named like one that writes, and says of none of its
/// tensors that it writes it.
bool writes_unsaid(const c10::OperatorHandle& op);

/// Listens for operators that are registered from now on, once, and looks at those that are. Needs no GIL.
void watch_operators();

/// Puts kernels before the operators that have been registered since the last call; before one, what was folded by then counts as written.
void watch_new_operators();

}  // namespace dynrun::guards
