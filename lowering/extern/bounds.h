#pragma once
// How large the elements of each value can be. Where a result is proven finite, oneDNN's relu (which loses NaN) is exact.

#include "lowering/extern/arguments.h"

#include <unordered_map>
#include <vector>

namespace dynrun::lowering {

/// Interval analysis over a program, one node after the other: |element| <= bound, infinity when not known.
class Bounds {
 public:
  /// An input is checked against this at run time, where its bound is not known and would be useful.
  static constexpr double kChecked = 1e6;
  /// Results up to here are far enough from overflow, partial sums and Winograd's transforms included.
  static constexpr double kFinite = 1e34;

  explicit Bounds(Program& program);
  double of(ValueId id);
  void set(ValueId id, double bound);
  /// Notes what `convolution` needs of a known weight, which may be given up after that.
  void remember_weight(ValueId weight);
  /// Computes the bounds of a node's outputs from those of its inputs.
  void visit(const Node& node);

 private:
  double known_bound(ValueId id);
  double transfer(const Node& node);
  double convolution(const Node& node);
  double linear(const Node& node);
  double batch_norm(const Node& node);
  double normalisation(const Node& node, std::size_t count_from, std::size_t weight, std::size_t bias);
  double argument_bound(const Node& node, std::size_t index);

  Program& program_;
  std::vector<double> bounds_;  // -1: not computed
  std::unordered_map<ValueId, double> row_bounds_;
};

}  // namespace dynrun::lowering
