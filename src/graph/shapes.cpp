#include "graph/shapes.h"

#include "graph/operators.h"

#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/InferSize.h>
#include <ATen/NativeFunctions.h>
#include <ATen/TensorUtils.h>
#include <ATen/WrapDimUtils.h>

#include <numeric>
#include <unordered_map>
#include <unordered_set>

namespace dynrun::graph {
namespace {

using Sizes = std::vector<std::int64_t>;

/// Thrown by a rule that does not cover a case.
struct NotCovered {};

[[noreturn]] void not_covered() { throw NotCovered(); }

Sizes row_major(c10::IntArrayRef sizes) {
  Sizes strides(sizes.size());
  std::int64_t next = 1;
  for (std::size_t i = sizes.size(); i-- > 0;) {
    strides[i] = next;
    next *= std::max<std::int64_t>(sizes[i], 1);
  }
  return strides;
}

/// A node's arguments and results, as its rule sees them.
class Case {
 public:
  Case(const Node& node, const Graph& recorded, const torch::jit::Stack& stack) : node_(node), recorded_(recorded), stack_(stack), first_(stack.size() - node.arguments.size()) {}

  const c10::IValue& at(std::size_t index) const { return stack_[first_ + index]; }
  std::size_t find(std::string_view name) const {
    const auto& formals = node_.op.schema().arguments();
    for (std::size_t i = 0; i < formals.size(); i++) {
      if (formals[i].name() == name) return i;
    }
    return formals.size();
  }
  bool has(std::string_view name) const { return find(name) < node_.arguments.size() && !at(find(name)).isNone(); }
  const c10::IValue& argument(std::string_view name) const {
    const std::size_t index = find(name);
    if (index >= node_.arguments.size()) not_covered();
    return at(index);
  }
  at::Tensor tensor(std::size_t index = 0) const {
    if (!at(index).isTensor() || !at(index).toTensor().defined()) not_covered();
    return at(index).toTensor();
  }
  /// A tensor whose result lies in memory as it does.
  at::Tensor contiguous(std::size_t index = 0) const {
    at::Tensor one = tensor(index);
    if (!one.is_contiguous()) not_covered();
    return one;
  }
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const {
    if (!has(name)) return otherwise;
    return argument(name).toInt();
  }
  bool flag(std::string_view name) const { return has(name) && argument(name).toBool(); }
  Sizes integers(std::string_view name) const {
    const c10::IValue& value = argument(name);
    return value.isInt() ? Sizes{value.toInt()} : value.toIntVector();
  }
  /// All tensors among the arguments, those of lists too; numbers in tensors left out.
  std::vector<at::Tensor> tensors() const {
    std::vector<at::Tensor> found;
    auto add = [&](const at::Tensor& one) {
      if (one.defined() && !one.unsafeGetTensorImpl()->is_wrapped_number()) found.push_back(one);
    };
    for (std::size_t i = 0; i < node_.arguments.size(); i++) {
      if (at(i).isTensor()) add(at(i).toTensor());
      if (!at(i).isTensorList()) continue;
      for (const at::Tensor& one : at(i).toTensorVector()) add(one);
    }
    return found;
  }

  /// Whether an operand is a number, which libtorch makes a tensor of no dimension of.
  bool has_number() const {
    if (overload() == "Scalar" && name() != "lerp") return true;
    for (std::size_t i = 0; i < node_.arguments.size(); i++) {
      if (at(i).isTensor() && at(i).toTensor().defined() && at(i).toTensor().unsafeGetTensorImpl()->is_wrapped_number()) return true;
    }
    return false;
  }

  std::string_view name() const { return base_name(node_.op); }
  const std::string& overload() const { return node_.op.operator_name().overload_name; }
  const Node& node() const { return node_; }
  std::size_t result_count() const { return node_.outputs.size(); }
  const TensorType& recorded(std::size_t result) const {
    if (node_.outputs.at(result) == kNoValue) not_covered();
    return recorded_.type_of(node_.outputs[result]);
  }
  /// Whether the result is the very tensor that was argument `index`.
  bool gives_argument(std::size_t index) const { return node_.arguments[index].is_value() && node_.arguments[index].value() == node_.outputs[0]; }

  at::Tensor make(c10::IntArrayRef sizes, c10::IntArrayRef strides, std::size_t result = 0) const {
    return at::detail::empty_strided_meta(sizes, strides, recorded(result).dtype);
  }
  void give(c10::IntArrayRef sizes) { results_.emplace_back(make(sizes, row_major(sizes), results_.size())); }
  void give(c10::IntArrayRef sizes, c10::IntArrayRef strides) { results_.emplace_back(make(sizes, strides, results_.size())); }
  void give_value(c10::IValue value) { results_.push_back(std::move(value)); }
  std::vector<c10::IValue> take() { return std::move(results_); }

 private:
  const Node& node_;
  const Graph& recorded_;
  const torch::jit::Stack& stack_;
  std::size_t first_;
  std::vector<c10::IValue> results_;
};

/// An operand's stride over a dimension of the result: 0 where it is repeated.
std::int64_t stride_over(const at::Tensor& operand, std::int64_t dimension, c10::IntArrayRef sizes) {
  const std::int64_t own = dimension - (static_cast<std::int64_t>(sizes.size()) - operand.dim());
  if (own < 0 || (operand.size(own) == 1 && sizes[static_cast<std::size_t>(dimension)] != 1)) return 0;
  return operand.stride(own);
}

/// Strides that at::TensorIterator gives its result: dimensions in the order in which they lie in the operands, the first one's
/// order where they differ (TensorIteratorBase::reorder_dimensions).
Sizes iterated_strides(const std::vector<at::Tensor>& operands, c10::IntArrayRef sizes) {
  const auto rank = static_cast<std::int64_t>(sizes.size());
  Sizes order(sizes.size());  // the innermost first
  for (std::int64_t i = 0; i < rank; i++) order[static_cast<std::size_t>(i)] = rank - 1 - i;
  auto compare = [&](std::int64_t a, std::int64_t b) {
    for (const at::Tensor& operand : operands) {
      const std::int64_t x = stride_over(operand, a, sizes), y = stride_over(operand, b, sizes);
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (sizes[static_cast<std::size_t>(a)] > sizes[static_cast<std::size_t>(b)]) return 1;
    }
    return 0;
  };
  for (std::int64_t i = 1; i < rank; i++) {
    auto moving = static_cast<std::size_t>(i);
    for (std::size_t before = moving; before-- > 0;) {
      const int comparison = compare(order[before], order[moving]);
      if (comparison < 0) break;
      if (comparison == 0) continue;
      std::swap(order[before], order[moving]);
      moving = before;
    }
  }
  Sizes strides(sizes.size());
  std::int64_t next = 1;
  for (std::int64_t dimension : order) {
    strides[static_cast<std::size_t>(dimension)] = next;
    next *= std::max<std::int64_t>(sizes[static_cast<std::size_t>(dimension)], 1);
  }
  return strides;
}

/// Strides of the result where at::TensorIterator need not look at the order of dimensions (compute_fast_setup_type): operands of
/// one size, all contiguous, all channels-last, or all dense with the same strides. A dimension of one element tells the ways apart.
std::optional<Sizes> quick_strides(const std::vector<at::Tensor>& operands) {
  auto all = [&](auto holds) { return std::all_of(operands.begin(), operands.end(), holds); };
  const at::Tensor& first = operands[0];
  if (!all([&](const at::Tensor& one) { return one.sizes() == first.sizes(); })) return std::nullopt;
  if (all([](const at::Tensor& one) { return one.is_contiguous(); })) return row_major(first.sizes());
  if (all([](const at::Tensor& one) { return one.is_contiguous(c10::MemoryFormat::ChannelsLast); })) return c10::get_channels_last_strides_2d(first.sizes());
  if (all([&](const at::Tensor& one) { return one.is_non_overlapping_and_dense() && one.strides() == first.strides(); })) return first.strides().vec();
  return std::nullopt;
}

void elementwise(Case& c) {
  const std::vector<at::Tensor> operands = c.tensors();
  if (operands.empty()) not_covered();
  Sizes sizes = operands[0].sizes().vec();
  for (const at::Tensor& one : operands) sizes = at::infer_size(sizes, one.sizes());
  if (!c.has_number()) {
    if (const auto strides = quick_strides(operands)) return c.give(sizes, *strides);
  }
  c.give(sizes, iterated_strides(operands, sizes));
}

void like_first(Case& c) { c.give(c.contiguous().sizes()); }

/// Contiguous, however the first argument lies.
void sizes_of_first(Case& c) {
  for (std::size_t i = 0; i < c.result_count(); i++) c.give(c.tensor().sizes());
}

void dropout(Case& c) {
  if (c.gives_argument(0)) return c.give_value(c.tensor());
  c.give(c.contiguous().sizes());
}

void matmul(Case& c) {
  const at::Tensor a = c.tensor(0), b = c.tensor(1);
  if (a.dim() == 0 || b.dim() == 0) not_covered();
  const Sizes left = a.sizes().vec(), right = b.sizes().vec();
  TORCH_CHECK(left.back() == right[right.size() > 1 ? right.size() - 2 : 0], "sizes of a matrix product");
  Sizes sizes = at::infer_size(a.dim() > 2 ? a.sizes().slice(0, left.size() - 2) : c10::IntArrayRef(), b.dim() > 2 ? b.sizes().slice(0, right.size() - 2) : c10::IntArrayRef());
  if (a.dim() > 1) sizes.push_back(left[left.size() - 2]);
  if (b.dim() > 1) sizes.push_back(right.back());
  c.give(sizes);
}

void linear(Case& c) {
  Sizes sizes = c.tensor(0).sizes().vec();
  TORCH_CHECK(!sizes.empty() && sizes.back() == c.tensor(1).size(-1), "sizes of a linear layer");
  if (c.tensor(1).dim() != 2) not_covered();
  sizes.back() = c.tensor(1).size(0);
  c.give(sizes);
}

void product_after(Case& c) {  // addmm, baddbmm
  const at::Tensor a = c.tensor(1), b = c.tensor(2);
  Sizes sizes = a.sizes().vec();
  TORCH_CHECK(a.size(-1) == b.size(-2), "sizes of a matrix product");
  sizes.back() = b.size(-1);
  c.give(sizes);
}

std::int64_t window(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t dilation, bool ceil) {
  const std::int64_t span = size + 2 * padding - dilation * (kernel - 1) - 1;
  std::int64_t count = (span + (ceil ? stride - 1 : 0)) / stride + 1;
  if (ceil && (count - 1) * stride >= size + padding) count--;
  TORCH_CHECK(count > 0 && span >= 0, "a window larger than its input");
  return count;
}

std::int64_t item(const Sizes& values, std::size_t index) { return values.size() == 1 ? values[0] : values.at(index); }

void convolution(Case& c) {
  const at::Tensor input = c.contiguous(0), weight = c.contiguous(1);
  const std::size_t spatial = static_cast<std::size_t>(weight.dim()) - 2;
  if (input.dim() != weight.dim() || !c.argument("padding").isIntList() || c.has("transposed") || c.has("output_padding")) not_covered();
  Sizes sizes{input.size(0), weight.size(0)};
  for (std::size_t i = 0; i < spatial; i++) {
    const auto dimension = static_cast<std::int64_t>(i) + 2;
    sizes.push_back(window(input.size(dimension), weight.size(dimension), item(c.integers("stride"), i), item(c.integers("padding"), i), item(c.integers("dilation"), i), false));
  }
  c.give(sizes);
}

void pool(Case& c) {
  const at::Tensor input = c.contiguous(0);
  const Sizes kernel = c.integers("kernel_size"), padding = c.integers("padding");
  Sizes stride = c.integers("stride");
  const Sizes dilation = c.has("dilation") ? c.integers("dilation") : Sizes{1};
  if (stride.empty()) stride = kernel;
  const std::size_t spatial = c.name().find("1d") != std::string_view::npos ? 1 : c.name().find("2d") != std::string_view::npos ? 2 : 3;
  Sizes sizes = input.sizes().vec();
  for (std::size_t i = 0; i < spatial; i++) {
    std::int64_t& size = sizes[sizes.size() - spatial + i];
    size = window(size, item(kernel, i), item(stride, i), item(padding, i), item(dilation, i), c.flag("ceil_mode"));
  }
  for (std::size_t i = 0; i < c.result_count(); i++) c.give(sizes);
}

void adaptive_pool(Case& c) {
  const at::Tensor input = c.contiguous(0);
  const Sizes output = c.integers("output_size");
  Sizes sizes = input.sizes().vec();
  std::copy(output.begin(), output.end(), sizes.end() - static_cast<std::ptrdiff_t>(output.size()));
  for (std::size_t i = 0; i < c.result_count(); i++) c.give(sizes);
}

/// Reduced dimensions kept with one element, or gone.
Sizes reduced(const at::Tensor& input, Sizes dimensions, bool keep) {
  if (dimensions.empty()) {
    dimensions.resize(static_cast<std::size_t>(input.dim()));
    std::iota(dimensions.begin(), dimensions.end(), 0);
  }
  std::vector<bool> gone(static_cast<std::size_t>(input.dim()), false);
  for (std::int64_t dimension : dimensions) gone[static_cast<std::size_t>(c10::maybe_wrap_dim(dimension, input.dim()))] = true;
  Sizes sizes;
  for (std::size_t i = 0; i < gone.size(); i++) {
    if (!gone[i]) sizes.push_back(input.size(static_cast<std::int64_t>(i)));
    else if (keep) sizes.push_back(1);
  }
  return sizes;
}

void reduction(Case& c) {
  if (c.has("other")) return elementwise(c);
  const at::Tensor input = c.tensor(0);
  if (input.dim() == 0) not_covered();
  const Sizes dimensions = c.has("dim") ? c.integers("dim") : Sizes();
  const bool one_each = c.result_count() > 1;
  if (one_each && dimensions.empty()) not_covered();
  for (std::size_t i = 0; i < c.result_count(); i++) c.give(reduced(input, dimensions, c.flag("keepdim")));
}

void cat(Case& c) {
  std::vector<at::Tensor> parts = c.at(0).toTensorVector();
  std::erase_if(parts, [](const at::Tensor& one) { return one.dim() == 1 && one.numel() == 0; });  // as at::cat does
  if (parts.empty() || std::any_of(parts.begin(), parts.end(), [&](const at::Tensor& one) { return one.suggest_memory_format() != c10::MemoryFormat::Contiguous || one.dim() != parts[0].dim(); })) not_covered();
  const std::int64_t dimension = c10::maybe_wrap_dim(c.integer("dim", 0), parts[0].dim());
  Sizes sizes = parts[0].sizes().vec();
  for (std::size_t i = 1; i < parts.size(); i++) {
    for (std::int64_t d = 0; d < parts[i].dim(); d++) {
      if (d == dimension) sizes[static_cast<std::size_t>(d)] += parts[i].size(d);
      else TORCH_CHECK(parts[i].size(d) == sizes[static_cast<std::size_t>(d)], "sizes of cat");
    }
  }
  c.give(sizes);
}

void diff(Case& c) {
  const at::Tensor input = c.tensor(0);
  if (input.dim() == 0) not_covered();
  const std::int64_t dimension = c10::maybe_wrap_dim(c.integer("dim", -1), input.dim());
  Sizes sizes = input.sizes().vec();
  std::int64_t& size = sizes[static_cast<std::size_t>(dimension)];
  for (const char* more : {"prepend", "append"}) {
    if (c.has(more)) size += c.argument(more).toTensor().size(dimension);
  }
  size -= c.integer("n", 1);
  if (size < 0) not_covered();
  if (c.has("prepend") || c.has("append")) return c.give(sizes);
  c.give(sizes, iterated_strides({input.narrow(dimension, 0, size)}, sizes));
}

void stack(Case& c) {
  const std::vector<at::Tensor> parts = c.at(0).toTensorVector();
  if (parts.empty()) not_covered();
  for (const at::Tensor& one : parts) TORCH_CHECK(one.sizes() == parts[0].sizes(), "sizes of stack");
  Sizes sizes = parts[0].sizes().vec();
  sizes.insert(sizes.begin() + c10::maybe_wrap_dim(c.integer("dim", 0), parts[0].dim() + 1), static_cast<std::int64_t>(parts.size()));
  c.give(sizes);
}

void embedding(Case& c) {
  Sizes sizes = c.tensor(1).sizes().vec();
  sizes.push_back(c.tensor(0).size(1));
  c.give(sizes);
}

void index_select(Case& c) {
  Sizes sizes = c.tensor(0).sizes().vec();
  if (sizes.empty()) not_covered();
  sizes[static_cast<std::size_t>(c10::maybe_wrap_dim(c.integer("dim", 0), c.tensor(0).dim()))] = c.tensor(2).numel();
  c.give(sizes);
}

void gather(Case& c) { c.give(c.tensor(2).sizes()); }

void take_along(Case& c) {
  const at::Tensor input = c.tensor(0), places = c.tensor(1);
  if (!c.has("dim") || input.dim() != places.dim() || input.dim() == 0) not_covered();
  const auto dimension = static_cast<std::size_t>(c10::maybe_wrap_dim(c.integer("dim", 0), input.dim()));
  Sizes from = input.sizes().vec(), sizes = places.sizes().vec();
  from[dimension] = sizes[dimension];
  c.give(at::infer_size(from, sizes));
}

void draws(Case& c) {  // multinomial
  Sizes sizes = c.tensor(0).sizes().vec();
  if (sizes.empty()) not_covered();
  sizes.back() = c.integer("num_samples", 1);
  c.give(sizes);
}

void is_in(Case& c) {
  if (c.overload() != "Tensor_Tensor") not_covered();
  c.give(c.tensor(0).sizes());
}

/// A loss over all elements.
void loss(Case& c) {
  constexpr std::int64_t kNone = 0;
  if (c.integer("reduction", 1) == kNone) not_covered();
  c.give({});
}

void upsample(Case& c) {
  const at::Tensor input = c.contiguous(0);
  if (c.overload() != "vec" || input.dim() < 3) not_covered();
  Sizes sizes = input.sizes().vec();
  for (std::size_t i = 2; i < sizes.size(); i++) {
    if (c.has("output_size")) sizes[i] = c.integers("output_size").at(i - 2);
    else sizes[i] = static_cast<std::int64_t>(static_cast<double>(sizes[i]) * c.argument("scale_factors").toDoubleVector().at(i - 2));
  }
  c.give(sizes);
}

void transposed_convolution(Case& c) {
  const at::Tensor input = c.contiguous(0), weight = c.contiguous(1);
  if (input.dim() != weight.dim()) not_covered();
  Sizes sizes{input.size(0), weight.size(1) * c.integer("groups", 1)};
  for (std::size_t i = 0; i + 2 < static_cast<std::size_t>(weight.dim()); i++) {
    const auto dimension = static_cast<std::int64_t>(i) + 2;
    const std::int64_t span = item(c.integers("dilation"), i) * (weight.size(dimension) - 1);
    sizes.push_back((input.size(dimension) - 1) * item(c.integers("stride"), i) - 2 * item(c.integers("padding"), i) + span + item(c.integers("output_padding"), i) + 1);
  }
  c.give(sizes);
}

/// Sizes of a tensor that is repeated so many times along each dimension, the last ones of which are its own.
Sizes repeated(const at::Tensor& tensor, Sizes by) {
  const std::size_t added = by.size() - static_cast<std::size_t>(tensor.dim());
  for (std::size_t i = added; i < by.size(); i++) by[i] *= tensor.size(static_cast<std::int64_t>(i - added));
  return by;
}

void repeat(Case& c) {
  const Sizes by = c.integers("repeats");
  if (by.size() < static_cast<std::size_t>(c.tensor(0).dim())) not_covered();
  c.give(repeated(c.tensor(0), by));
}

void tile(Case& c) {
  Sizes by = c.integers("dims");
  const auto rank = static_cast<std::size_t>(c.tensor(0).dim());
  if (rank > by.size()) by.insert(by.begin(), rank - by.size(), 1);
  c.give(repeated(c.tensor(0), by));
}

void outer(Case& c) { c.give(Sizes{c.tensor(0).size(0), c.tensor(1).size(0)}); }

/// Tensors of integers in front, nothing behind.
void index(Case& c) {
  const at::Tensor input = c.contiguous(0);
  const auto indices = c.at(1).toListRef();
  Sizes sizes;
  for (const c10::IValue& one : indices) {
    if (!one.isTensor() || !one.toTensor().defined() || !one.toTensor().is_contiguous()) not_covered();
    const at::Tensor tensor = one.toTensor();
    if (tensor.scalar_type() == at::kBool || tensor.scalar_type() == at::kByte) not_covered();
    sizes = at::infer_size(sizes, tensor.sizes());
  }
  for (std::int64_t i = static_cast<std::int64_t>(indices.size()); i < input.dim(); i++) sizes.push_back(input.size(i));
  c.give(sizes);
}

/// The result lies as in the recording: contiguous, or with heads behind the sequence.
void attention(Case& c) {
  Sizes sizes = c.tensor(0).sizes().vec();
  sizes.back() = c.tensor(2).size(-1);
  const TensorType& recorded = c.recorded(0);
  auto interleaved = [](const Sizes& s) { return Sizes{s[1] * s[2] * s[3], s[3], s[1] * s[3], 1}; };
  // A sequence of one element is contiguous either way.
  if (sizes.size() == 4 && recorded.strides == interleaved(recorded.sizes)) return c.give(sizes, interleaved(sizes));
  if (!recorded.is_contiguous()) not_covered();
  c.give(sizes);
}

/// As it lies in the recording: contiguous, or with the first two dimensions the other way round.
void recurrent(Case& c) {
  const at::Tensor input = c.tensor(0), hidden = c.at(1).isTensor() ? c.tensor(1) : c.at(1).toTensorVector().at(0);
  if (input.dim() != 3 || !c.at(2).isTensorList()) not_covered();
  Sizes sizes = input.sizes().vec();
  sizes[2] = hidden.size(2) * (c.flag("bidirectional") ? 2 : 1);
  const TensorType& recorded = c.recorded(0);
  const Sizes swapped{sizes[2], sizes[0] * sizes[2], 1};
  const bool in_rows = recorded.strides == row_major(recorded.sizes), is_swapped = recorded.strides == Sizes{recorded.sizes[2], recorded.sizes[0] * recorded.sizes[2], 1};
  if (in_rows == is_swapped) not_covered();
  if (in_rows) c.give(sizes);
  else c.give(sizes, swapped);
  for (std::size_t i = 1; i < c.result_count(); i++) c.give(hidden.sizes());
}

Sizes target_sizes(const at::Tensor& input, Sizes wanted) {
  const c10::IntArrayRef view(wanted);
  const auto inferred = at::infer_size_dv(view, input.numel());
  return {inferred.begin(), inferred.end()};
}

void reshape_to(Case& c, const Sizes& sizes) {
  const at::Tensor input = c.tensor(0);
  if (c.gives_argument(0)) {
    TORCH_CHECK(input.sizes() == c10::IntArrayRef(sizes), "a view that is its input");
    return c.give_value(input);
  }
  const auto strides = at::detail::computeStride(input.sizes(), input.strides(), c10::IntArrayRef(sizes));
  if (strides) return c.give(sizes, *strides);
  c.give(sizes);
}

void reshape(Case& c) { reshape_to(c, target_sizes(c.tensor(0), c.integers("shape"))); }

void flatten(Case& c) {
  const at::Tensor input = c.tensor(0);
  if (!c.overload().empty() && c.overload() != "using_ints") not_covered();
  if (input.dim() == 0) not_covered();
  const auto start = static_cast<std::size_t>(c10::maybe_wrap_dim(c.integer("start_dim", 0), input.dim()));
  const auto end = static_cast<std::size_t>(c10::maybe_wrap_dim(c.integer("end_dim", -1), input.dim()));
  Sizes sizes = input.sizes().vec(), flat(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(start));
  flat.push_back(std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(start), sizes.begin() + static_cast<std::ptrdiff_t>(end) + 1, std::int64_t{1}, std::multiplies<>()));
  flat.insert(flat.end(), sizes.begin() + static_cast<std::ptrdiff_t>(end) + 1, sizes.end());
  reshape_to(c, flat);
}

/// A copy that lies as the first argument does.
void copy_of_first(Case& c) {
  const at::Tensor input = c.tensor(0);
  if (c.gives_argument(0)) return c.give_value(input);
  if (c.has("memory_format") && c.argument("memory_format").toMemoryFormat() == c10::MemoryFormat::Contiguous) return c.give(input.sizes());
  if (c.has("memory_format") && c.argument("memory_format").toMemoryFormat() != c10::MemoryFormat::Preserve) not_covered();
  if (input.is_contiguous()) return c.give(input.sizes());
  if (!input.is_non_overlapping_and_dense()) not_covered();
  c.give(input.sizes(), input.strides());
}

void make_contiguous(Case& c) {
  if (c.has("memory_format") && c.argument("memory_format").toMemoryFormat() != c10::MemoryFormat::Contiguous) not_covered();
  const at::Tensor input = c.tensor(0);
  if (c.gives_argument(0) && !input.is_contiguous()) not_covered();
  if (input.is_contiguous()) return c.give_value(input);
  c.give(input.sizes());
}

void of_size(Case& c) { c.give(c.integers("size")); }

void arange(Case& c) {
  const double end = c.argument("end").toScalar().toDouble();
  const double start = c.has("start") ? c.argument("start").toScalar().toDouble() : 0, step = c.has("step") ? c.argument("step").toScalar().toDouble() : 1;
  TORCH_CHECK(step != 0 && (end - start) / step >= 0, "a range that leads away from its end");
  c.give(Sizes{static_cast<std::int64_t>(std::ceil((end - start) / step))});
}

void one_more(Case& c) {  // one_hot
  Sizes sizes = c.tensor(0).sizes().vec();
  sizes.push_back(c.integer("num_classes", -1));
  if (sizes.back() < 0) not_covered();
  c.give(sizes);
}

void pad(Case& c) {
  Sizes sizes = c.contiguous(0).sizes().vec();
  const Sizes by = c.integers("pad");
  for (std::size_t i = 0; i + 1 < by.size(); i += 2) sizes.at(sizes.size() - 1 - i / 2) += by[i] + by[i + 1];
  if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) not_covered();
  c.give(sizes);
}

void top(Case& c) {  // topk
  Sizes sizes = c.contiguous(0).sizes().vec();
  if (sizes.empty()) not_covered();
  sizes[static_cast<std::size_t>(c10::maybe_wrap_dim(c.integer("dim", -1), c.tensor(0).dim()))] = c.integer("k", 0);
  c.give(sizes), c.give(sizes);
}

void like_first_each(Case& c) {
  for (std::size_t i = 0; i < c.result_count(); i++) c.give(c.contiguous(0).sizes());
}

using Rule = void (*)(Case&);

const std::unordered_map<std::string_view, Rule>& rules() {
  static const auto table = [] {
    std::unordered_map<std::string_view, Rule> rules;
    auto add = [&](Rule rule, std::initializer_list<std::string_view> names) {
      for (std::string_view name : names) rules.emplace(name, rule);
    };
    add(elementwise, {"add", "sub", "rsub", "mul", "div", "divide", "multiply", "subtract", "true_divide", "floor_divide", "remainder", "fmod", "pow", "float_power", "neg", "negative", "abs", "absolute",
                      "sign", "square", "sqrt", "rsqrt", "reciprocal", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh",
                      "erf", "erfc", "erfinv", "floor", "ceil", "trunc", "round", "frac", "gt", "ge", "lt", "le", "eq", "ne", "greater", "greater_equal", "less", "less_equal", "not_equal", "isnan", "isinf",
                      "isfinite", "clamp", "clamp_min", "clamp_max", "clip", "maximum", "minimum", "fmax", "fmin", "logical_not", "logical_and", "logical_or", "logical_xor", "bitwise_and", "bitwise_or",
                      "bitwise_xor", "bitwise_not", "__and__", "__or__", "__xor__", "bitwise_left_shift", "bitwise_right_shift", "__lshift__", "__rshift__", "relu", "relu6", "sigmoid", "log_sigmoid", "silu", "gelu", "mish", "elu", "selu", "celu",
                      "softplus", "softsign", "leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "where", "lerp", "addcmul", "addcdiv", "masked_fill", "nan_to_num", "copysign", "sinc", "hypot", "deg2rad", "rad2deg"});
    add(matmul, {"matmul", "mm", "bmm", "mv", "dot"});
    add(linear, {"linear"});
    add(product_after, {"addmm", "baddbmm"});
    add(convolution, {"conv1d", "conv2d", "conv3d"});
    add(pool, {"max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"});
    add(adaptive_pool, {"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d"});
    add(reduction, {"sum", "mean", "amax", "amin", "max", "min", "argmax", "argmin", "any", "all", "prod", "std", "var", "norm", "logsumexp", "linalg_vector_norm"});
    add(like_first, {"group_norm", "batch_norm", "instance_norm", "rms_norm", "_transformer_encoder_layer_fwd", "tril", "triu", "flip", "roll", "normalize", "argsort", "prelu",
                     "index_add", "index_copy", "index_fill", "index_put"});
    add(sizes_of_first, {"layer_norm", "softmax", "log_softmax", "cumsum", "cumprod", "logcumsumexp", "scatter", "scatter_add", "scatter_reduce"});
    add(dropout, {"dropout", "feature_dropout", "alpha_dropout"});
    add(like_first_each, {"sort"});
    add(cat, {"cat", "concat", "concatenate"});
    add(diff, {"diff"});
    add(stack, {"stack"});
    add(embedding, {"embedding"});
    add(index_select, {"index_select"});
    add(gather, {"gather"});
    add(take_along, {"take_along_dim"});
    add(draws, {"multinomial"});
    add(is_in, {"isin"});
    add(loss, {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "soft_margin_loss", "kl_div", "poisson_nll_loss",
               "hinge_embedding_loss", "margin_ranking_loss", "cosine_embedding_loss", "triplet_margin_loss", "cross_entropy_loss", "nll_loss", "nll_loss2d", "nll_loss_nd", "multi_margin_loss",
               "multilabel_margin_loss"});
    add(upsample, {"upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "_upsample_nearest_exact1d", "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_linear1d",
                   "upsample_bilinear2d", "upsample_bicubic2d", "upsample_trilinear3d", "_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"});
    add(transposed_convolution, {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"});
    add(tile, {"tile"});
    add(outer, {"outer"});
    add(sizes_of_first, {"cummax", "cummin"});
    add(elementwise, {"acosh", "asinh", "atanh", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "arctan2", "fix", "sgn", "signbit", "isposinf", "isneginf", "lgamma", "digamma", "logit",
                      "special_expit", "i0", "special_entr", "special_erfcx", "special_i0e", "special_i1", "special_i1e", "special_log_ndtr", "special_ndtri", "special_xlog1py", "special_zeta", "xlogy",
                      "logaddexp", "logaddexp2", "heaviside", "gcd", "lcm", "nextafter", "igamma", "igammac", "hardshrink", "softshrink", "threshold"});
    add(index, {"index"});
    add(attention, {"scaled_dot_product_attention"});
    add(recurrent, {"lstm", "gru", "rnn_tanh", "rnn_relu"});
    add(reshape, {"reshape"});
    add(flatten, {"flatten"});
    add(copy_of_first, {"clone", "to", "zeros_like", "ones_like", "full_like", "empty_like", "rand_like", "randn_like", "type_as"});
    add(make_contiguous, {"contiguous"});
    add(of_size, {"zeros", "ones", "full", "empty", "rand", "randn", "new_zeros", "new_ones", "new_full", "new_empty"});
    add(arange, {"arange"});
    add(one_more, {"one_hot"});
    add(pad, {"pad", "constant_pad_nd"});
    add(repeat, {"repeat"});
    add(top, {"topk"});
    return rules;
  }();
  return table;
}

}  // namespace

bool infer(const Node& node, const Graph& recorded, torch::jit::Stack& stack) {
  const std::string_view name = base_name(node.op);
  if (is_view(name) && !node.op.schema().is_mutable()) {  // their kernels for the Meta device are the ones for all devices
    node.op.callBoxed(stack);
    return true;
  }
  if (node.op.schema().returns().empty() && node.op.operator_name().name.rfind("dynrun::", 0) == 0) {
    stack.clear();
    return true;
  }
  // What writes its first argument gives it, in the sizes that it has.
  if (node.op.schema().is_mutable()) {
    const bool in_place = node.op.operator_name().name.back() == '_' && node.outputs.size() == 1 && node.arguments[0].is_value() && node.arguments[0].value() == node.outputs[0];
    if (!in_place || !stack[stack.size() - node.arguments.size()].isTensor() || node.op.hasTag(at::Tag::inplace_view)) return false;
    c10::IValue self = stack[stack.size() - node.arguments.size()];
    stack.clear();
    stack.push_back(std::move(self));
    return true;
  }
  auto rule = rules().find(name);
  if (rule == rules().end()) return false;
  Case one(node, recorded, stack);
  try {
    rule->second(one);
  } catch (const NotCovered&) {
    return false;
  }
  std::vector<c10::IValue> results = one.take();
  stack.assign(std::make_move_iterator(results.begin()), std::make_move_iterator(results.end()));
  return stack.size() == node.return_lengths.size();
}

}  // namespace dynrun::graph
