#pragma once
// Memsets of a captured graph as kernels.

#include "runtime/cuda/driver.h"

namespace dynrun::runtime::cuda {

/// PTX of the kernel that fills memory: `fill(to, count, value, shift)` with a 32-bit word, or with four at a time, as 1 << shift says in bytes.
extern const char* const kFillPtx;

/// Puts kernels in the places of memsets, of which libraries have one before a product that is split. At each launch of a graph the
/// driver works a microsecond or two for each memset, and nothing for a kernel. Before the graph is instantiated; the graph stays as
/// it was where the driver refuses. `device`: whose primary context is the current one.
void replace_memsets(CUgraph graph, int device);

}  // namespace dynrun::runtime::cuda
