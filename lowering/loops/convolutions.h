#pragma once

#include "lowering/program.h"

namespace dynrun::lowering {

/// Whether a convolution has one filter for each channel, with so small a window that a generated kernel computes it on a GPU.
bool is_depthwise(const Program& program, const graph::Node& node);

}  // namespace dynrun::lowering
