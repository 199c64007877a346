#pragma once
// Runs what a segment was compiled to.

#include "trace/segment.h"

namespace dynrun::trace {

/// Runs a segment's code, or its operators where that cannot be, without the GIL: other threads may run the same code, or lower it anew,
/// meanwhile. kFailed where nothing has happened; kRaised where a Python error is set.
ReplayResult run_code(Segment& segment, const std::vector<at::Tensor>& inputs, Code& code, const runtime::RandomState& random, bool verify, std::vector<at::Tensor>& outputs);

}  // namespace dynrun::trace
