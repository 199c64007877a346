// What is guarded about a tensor.

#include "guards/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace dynrun::guards {

TensorFacts TensorFacts::of(const at::Tensor& tensor) {
  TensorFacts facts;
  facts.dtype = tensor.scalar_type();
  facts.device = tensor.device();
  facts.keys = tensor.key_set();
  facts.sizes = tensor.sizes().vec();
  facts.has_strides = tensor.layout() == c10::kStrided;
  if (facts.has_strides) facts.strides = tensor.strides().vec();
  facts.requires_grad = tensor.requires_grad();
  facts.inference = tensor.is_inference();
  facts.leaf = tensor.is_leaf();
  return facts;
}

bool TensorFacts::same_kind(const at::Tensor& tensor) const {
  if (!tensor.defined() || tensor.scalar_type() != dtype || tensor.key_set() != keys || tensor.device() != device) return false;
  if (requires_grad && tensor.is_leaf() != leaf) return false;
  return tensor.requires_grad() == requires_grad && tensor.is_inference() == inference;
}

namespace {

/// Whether the strides are those of a tensor without holes whose dimensions lie in this order.
bool is_dense(c10::IntArrayRef sizes, c10::IntArrayRef strides, const std::vector<std::int8_t>& order) {
  std::int64_t expected = 1;
  for (std::size_t i = order.size(); i-- > 0;) {
    const auto dimension = static_cast<std::size_t>(order[i]);
    if (strides[dimension] != expected) return false;
    expected *= std::max<std::int64_t>(sizes[dimension], 1);
  }
  return true;
}

}  // namespace

bool TensorFacts::open_sizes(std::uint64_t dimensions) {
  if (!has_strides || sizes.empty() || sizes.size() > 64) return false;
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] < 1) dimensions &= ~(std::uint64_t{1} << i);
  }
  if (dimensions == 0) return false;
  std::vector<std::int8_t> dense(sizes.size());
  for (std::size_t i = 0; i < dense.size(); i++) dense[i] = static_cast<std::int8_t>(i);
  auto outer = [&](std::int8_t a, std::int8_t b) {
    const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
    return strides[x] != strides[y] ? strides[x] > strides[y] : sizes[x] > sizes[y];
  };
  std::stable_sort(dense.begin(), dense.end(), outer);
  // With a hole somewhere the tensor is a part of another, whose strides stay.
  order = is_dense(sizes, strides, dense) ? dense : std::vector<std::int8_t>();
  open = dimensions;
  ones = true;
  return true;
}

void TensorFacts::close_ones() {
  ones = false;
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (sizes[i] < 2) open &= ~(std::uint64_t{1} << i);
  }
}

bool TensorFacts::holds(const at::Tensor& tensor) const {
  if (!same_kind(tensor)) return false;
  if (open == 0) return tensor.sizes() == c10::IntArrayRef(sizes) && (!has_strides || tensor.strides() == c10::IntArrayRef(strides));
  if (tensor.sizes().size() != sizes.size()) return false;
  for (std::size_t i = 0; i < sizes.size(); i++) {
    if (open >> i & 1 ? tensor.size(static_cast<std::int64_t>(i)) < (ones ? 1 : 2) : tensor.size(static_cast<std::int64_t>(i)) != sizes[i]) return false;
  }
  // A part that takes all of its memory is asked for its layout with other answers.
  return order.empty() ? tensor.strides() == c10::IntArrayRef(strides) && !tensor.is_non_overlapping_and_dense() : is_dense(tensor.sizes(), tensor.strides(), order);
}

std::string size_path(const std::string& tensor, std::size_t dimension) { return fmt::format("{}.size({})", tensor, dimension); }

std::string TensorFacts::describe() const {
  const char* gradient = !requires_grad ? "" : leaf ? " requires_grad" : " requires_grad (not a leaf)";
  if (open == 0) return fmt::format("{}[{}] strides [{}] on {}{}", c10::toString(dtype), fmt::join(sizes, ", "), fmt::join(strides, ", "), device.str(), gradient);
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < sizes.size(); i++) shown.push_back(open >> i & 1 ? ones ? "1.." : "2.." : std::to_string(sizes[i]));
  return fmt::format("{}[{}] on {}{}", c10::toString(dtype), fmt::join(shown, ", "), device.str(), gradient);
}

}  // namespace dynrun::guards
