#pragma once
// Kernels that differ in numbers only: sizes of loops, strides, offsets, constants. One function serves them all, which is given
// the numbers that differ.

#include "lowering/loops/loop.h"

#include <map>

namespace dynrun::lowering {

/// A kernel as its function sees it: `form` names arguments where the kernel has `arguments`.
struct GeneralKernel {
  Kernel form;
  std::vector<std::int64_t> arguments;
};

/// The numbers of a kernel in a fixed order. A floating constant counts as the bits of a double.
std::vector<std::int64_t> numbers_of(const Kernel& kernel);

/// Kernels of one structure that were met one after the other.
class KernelFamily {
 public:
  /// The form for this member. Numbers that were the same in all members so far are constants in it, and numbers that were equal
  /// to one another in each of them are one argument.
  GeneralKernel admit(const Kernel& member);

 private:
  bool fits(const std::vector<std::int64_t>& numbers) const;
  void generalise();

  std::vector<std::vector<std::int64_t>> members_;  // those that made the form what it is
  std::vector<std::int32_t> argument_of_;           // by number: -1 for a constant
  std::int32_t arguments_ = 0;
};

/// The families of the kernels that lowerings of one graph make.
class KernelFamilies {
 public:
  /// A lowering begins.
  void start() { met_.clear(); }
  /// `structure_class`: what else tells two functions apart.
  GeneralKernel admit(const Kernel& kernel, const std::string& structure_class);

 private:
  std::map<std::string, KernelFamily> families_;  // by structure, and by which of its kind in a lowering
  std::map<std::string, int> met_;
};

}  // namespace dynrun::lowering
