#pragma once
// Pointwise functions that a library kernel can apply to its result.

#include "lowering/extern/arguments.h"
#include "lowering/extern/onednn.h"

#include <functional>
#include <optional>

namespace dynrun::lowering {

struct Epilogue {
  onednn::Unary unary;
  /// oneDNN's version loses NaN (relu, hardtanh: max(NaN, 0) is 0 there): it may be used only where the result before it is
  /// known to be finite.
  bool needs_finite = false;
  /// libtorch's own function, for results that may not be finite.
  std::function<at::Tensor(const at::Tensor&)> exact;
};

/// The epilogue that `node` is, when it is one; its input is argument 0.
std::optional<Epilogue> match_epilogue(const Node& node);

}  // namespace dynrun::lowering
