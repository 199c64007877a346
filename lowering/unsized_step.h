#pragma once
// The run of a kernel over tensors whose size only a run knows.

#include "lowering/loops/loop.h"
#include "runtime/step.h"

#include <memory>

namespace dynrun::lowering {

constexpr std::int64_t kElementsOfRow = 64;
constexpr std::size_t kMostUnsizedBuffers = 16;

/// A pointwise kernel over one loop of kElementsOfRow elements, run for as many as there are.
class ElementsFunction {
 public:
  ElementsFunction() = default;
  ElementsFunction(const ElementsFunction&) = delete;
  ElementsFunction& operator=(const ElementsFunction&) = delete;
  virtual ~ElementsFunction() = default;
  /// `pointers`: one a buffer of the kernel, each to so many elements.
  virtual void run(const std::vector<void*>& pointers, std::int64_t elements) const = 0;
};

struct UnsizedBuffer {
  runtime::SlotId slot = -1;
  c10::ScalarType dtype = c10::ScalarType::Float;
  bool written = false;
};

using UnsizedOperators = std::vector<std::unique_ptr<runtime::Step>>;

/// `like`: the tensor whose size and layout all have. `operators`: the same work, one operator after the other.
std::unique_ptr<runtime::Step> make_unsized_step(std::unique_ptr<ElementsFunction> function, std::vector<UnsizedBuffer> buffers, runtime::SlotId like, UnsizedOperators operators,
                                                 std::string text);

std::unique_ptr<ElementsFunction> cpu_elements_function(const Kernel& kernel, const Options& options);

}  // namespace dynrun::lowering
