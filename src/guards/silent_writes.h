#pragma once
// Operators that write tensors without moving their version counters, and whose schemas do not say so, or not what they do: batch norms in
// training mode their running statistics, torch.distributed's collectives what they are given; and those that give a second way to the same
// memory. Kernels in the dispatcher count such writes for what was folded (storage_watch.h), wherever they come from; runs of segments go
// past the dispatcher's upper keys, and count theirs themselves.

#include <ATen/core/function_schema.h>

#include <string_view>

namespace dynrun::guards {

/// Whether an argument of an operator of this name is a running statistic, which it writes in training mode though its schema does not say so.
bool is_running_statistic(std::string_view op, const c10::Argument& argument);
/// Whether the argument tells if the batch's own statistics are used, and so the running ones written.
bool is_training_flag(const c10::Argument& argument);

}  // namespace dynrun::guards
