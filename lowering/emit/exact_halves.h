#pragma once
// Which operations of a kernel give numbers that a half type holds: rounding them to it changes nothing.

#include "lowering/loops/loop.h"

namespace dynrun::lowering::emit {

class ExactHalves {
 public:
  explicit ExactHalves(const Kernel& kernel);
  /// Whether every number that the operation gives is one of `dtype`, a half type.
  bool holds(std::int32_t op, c10::ScalarType dtype) const;

 private:
  struct Fits {
    bool half = false, bfloat = false;
  };
  static Fits both(const Fits& a, const Fits& b) { return {a.half && b.half, a.bfloat && b.bfloat}; }
  static Fits of_constant(const LoopOp& op);
  Fits of_point(const LoopOp& op) const;

  std::vector<Fits> fits_;  // one an operation
};

}  // namespace dynrun::lowering::emit
