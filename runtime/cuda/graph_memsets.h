#pragma once
// Memsets of a captured graph as kernels.

#include "runtime/cuda/driver.h"

namespace dynrun::runtime::cuda {

/// PTX of the kernels that fill memory: `fill(to, count, value)` with 32-bit words, `fill_wide` with four of them at a time.
extern const char* const kFillPtx;

/// Puts kernels in the places of memsets, of which libraries have one before a product that is split. At each launch of a graph the
/// driver works a microsecond or two for each memset, and nothing for a kernel. Before the graph is instantiated; the graph stays as
/// it was where the driver refuses. `device`: whose primary context is the current one.
void replace_memsets(CUgraph graph, int device);

}  // namespace dynrun::runtime::cuda
