#pragma once
// Code for a segment's graph by another compiler than dynrun's own: a Python callable.

#include "graph/graph.h"
#include "python/reference.h"
#include "runtime/executable.h"
#include "trace/segment.h"

#include <memory>
#include <vector>

namespace dynrun::engine {

/// What `lower(description, inputs)` makes of the segment's graph (see fx_bridge.h; numbers are Python numbers): a callable that takes
/// the inputs and gives a sequence of the outputs, or None where libtorch's operators shall do. The description also has `entry`, the mode that the
/// graph is called in (as a node's), `code`, of the function that the segment begins in, `open` (see open_sizes.h) and `facts`, a dict:
/// `effects`, how many things besides the result the segment does, and `guards`, a list of texts. Null with a Python error set.
std::shared_ptr<runtime::Executable> lower_with(PyObject* lower, const trace::Segment& segment, const std::vector<at::Tensor>& inputs);

}  // namespace dynrun::engine
