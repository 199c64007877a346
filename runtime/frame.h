#pragma once
// What one run of a plan works in.

#include "runtime/step.h"

namespace dynrun::runtime {

struct Frame {
  explicit Frame(std::size_t slot_count) : slots(slot_count) {}
  Slots slots;
  at::Tensor arena;  // while a run lasts
  bool built = false;
};

/// A tensor of that type with memory of its own, whose content is not set.
at::Tensor empty(const graph::TensorType& type);

}  // namespace dynrun::runtime
