#pragma once
// Windows that move over the last two dimensions of a tensor: poolings and convolutions of single channels.

#include "lowering/loops/decompose.h"

#include <functional>
#include <string>

namespace dynrun::lowering {

constexpr std::int64_t kMostOfWindow = 32;  // elements: registers and compile time grow with them

/// One dimension of a window as it moves over the input.
struct Side {
  std::int64_t input = 0, output = 0, kernel = 0, stride = 0, padding = 0, dilation = 1;

  /// How far from the window's first element the element is, in elements of the input; negative in the padding.
  std::int64_t offset(std::int64_t element) const { return element * dilation - padding; }
  /// The first and the last window whose element lies in the input.
  std::int64_t first(std::int64_t element) const { return std::max<std::int64_t>(0, (stride - 1 - offset(element)) / stride); }
  std::int64_t last(std::int64_t element) const { return std::min(output - 1, input - 1 < offset(element) ? -1 : (input - 1 - offset(element)) / stride); }
};

/// A list of one number or two, as torch's operators over windows take them.
std::pair<std::int64_t, std::int64_t> two(const std::vector<std::int64_t>& numbers, std::pair<std::int64_t, std::int64_t> otherwise);

/// The windows over the last two dimensions of the argument `name`. Throws NotCovered for too large ones.
class Windows {
 public:
  Windows(RuleContext& c, std::string name, Side rows, Side columns);

  /// What a visitor is given for each place in the window.
  struct Place {
    std::int64_t row = 0, column = 0;
    Expr element;
    Expr inside;  // whether it lies in the input; null where all of this place do
  };
  void visit(const std::function<void(const Place&)>& visit) const;

 private:
  std::size_t dimension(int from_end) const { return sizes_.size() - static_cast<std::size_t>(-from_end); }
  Expr within(const Side& side, std::int64_t element, int from_end) const;
  Expr element(std::int64_t i, std::int64_t j, const Expr& inside) const;

  RuleContext& c_;
  std::string name_;
  Side rows_, columns_;
  Sizes sizes_;
};

}  // namespace dynrun::lowering
