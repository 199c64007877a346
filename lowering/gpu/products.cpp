#include "lowering/gpu/products.h"

#include "lowering/extern/arguments.h"
#include "lowering/loops/decompose.h"
#include "runtime/cuda/graphed_runs.h"
#include "runtime/cuda/product.h"

#include <ATen/Context.h>
#include <fmt/format.h>

#include <algorithm>

namespace dynrun::lowering::gpu {
namespace {

using runtime::cuda::FastProduct;
using runtime::cuda::Product;
using runtime::cuda::ProductOperands;
using runtime::cuda::ProductShape;

struct MatchedProduct : ProductArguments {
  ProductShape shape;
};

/// A value as rows of so many elements each, evenly apart.
struct Matrix {
  std::int64_t rows = 0, columns = 0, step = 0;
  bool transposed = false;  // memory holds its columns
};

std::optional<Matrix> as_matrix(const TensorType& type) {
  const std::size_t rank = type.sizes.size();
  if (rank < 2 || type.unsized || type.element_count() == 0) return std::nullopt;
  Matrix matrix{type.element_count() / type.sizes.back(), type.sizes.back(), type.strides[rank - 2]};
  if (matrix.rows < 2 || matrix.columns < 2) return std::nullopt;
  if (rank == 2 && type.strides[0] == 1 && type.strides[1] >= type.sizes[0]) return Matrix{matrix.rows, matrix.columns, type.strides[1], true};
  if (type.strides.back() != 1) return std::nullopt;
  std::int64_t step = 0, expected = 0;
  for (std::size_t i = rank - 1; i-- > 0;) {
    if (type.sizes[i] == 1) continue;
    if (step == 0) expected = step = type.strides[i];
    if (type.strides[i] != expected) return std::nullopt;
    expected *= type.sizes[i];
  }
  matrix.step = step;
  return step >= matrix.columns ? std::optional(matrix) : std::nullopt;
}

/// float32 without TF32. Half types stay libtorch's: cuBLASLt's kernels for them have not been shown to round as eager's do.
bool is_type_served(c10::ScalarType type) {
  auto& context = at::globalContext();
  return type == c10::ScalarType::Float && context.float32MatmulPrecision() == at::Float32MatmulPrecision::HIGHEST &&
         context.float32Precision(at::Float32Backend::CUDA, at::Float32Op::MATMUL) != at::Float32Precision::TF32;
}

/// Any product of matrices that lie well, whoever computes it.
std::optional<MatchedProduct> match_any(const Program& program, std::int32_t index) {
  const Node& node = program.graph.nodes[static_cast<std::size_t>(index)];
  const auto arguments = product_arguments(program, node);
  if (!arguments || program.has_effect(index) || program.touches_unsized(index) || node.mode.autocast) return std::nullopt;
  MatchedProduct product{*arguments, {}};
  auto type_of = [&](ValueId id) -> const TensorType& { return program.graph.type_of(id); };
  const TensorType& result = type_of(product.output);
  const auto left = as_matrix(type_of(product.input)), right = as_matrix(type_of(product.weight));
  if (!left || !right || type_of(product.weight).sizes.size() != 2 || !result.is_contiguous()) return std::nullopt;
  for (ValueId id : {product.input, product.weight, product.bias}) {
    if (id != graph::kNoValue && (type_of(id).dtype != result.dtype || type_of(id).device != result.device)) return std::nullopt;
  }
  ProductShape& shape = product.shape;
  shape.rows = left->rows, shape.depth = left->columns, shape.columns = product.weight_is_transposed ? right->columns : right->rows;
  shape.left_transposed = left->transposed, shape.left_step = left->step;
  shape.right_transposed = right->transposed == product.weight_is_transposed, shape.right_step = right->step;
  shape.bias = product.bias != graph::kNoValue;
  if (shape.bias && (type_of(product.bias).sizes != Sizes{shape.columns} || type_of(product.bias).strides != Sizes{1})) return std::nullopt;
  return product;
}

std::optional<MatchedProduct> match_product(const Program& program, std::int32_t index) {
  auto product = match_any(program, index);
  return product && is_type_served(program.graph.type_of(product->output).dtype) ? product : std::nullopt;
}

/// Whether the product is so large a result that it pays to be written where the run wants it: see runtime/cuda/graphed_runs.h.
bool is_large_result(const Program& program, const Uses& uses, ValueId value) {
  const TensorType& type = program.graph.type_of(value);
  return uses.is_output(value) && type.element_count() * static_cast<std::int64_t>(c10::elementSize(type.dtype)) >= runtime::cuda::kLargeResult;
}

/// `product`: null for libtorch's own call.
class ProductStep final : public runtime::Step {
 public:
  ProductStep(const ProductShape& shape, std::shared_ptr<const Product> product, std::vector<runtime::SlotId> inputs, runtime::SlotId output)
      : shape_(shape), product_(std::move(product)), inputs_(std::move(inputs)), output_(output) {}

  void run(runtime::Slots& slots) const override {
    const at::Tensor &left = slots[inputs_[0]], &right = slots[inputs_[1]];
    at::Tensor& result = slots[output_];
    const void* bias = shape_.bias ? slots[inputs_[2]].const_data_ptr() : nullptr;
    const ProductOperands operands{left.const_data_ptr(), right.const_data_ptr(), bias, result.mutable_data_ptr()};
    if (product_ && Product::is_aligned(operands)) return product_->run(operands);
    runtime::cuda::multiply(result.view({shape_.rows, shape_.columns}), matrix_of(left, shape_.rows, shape_.depth, shape_.left_transposed, shape_.left_step),
                            matrix_of(right, shape_.depth, shape_.columns, shape_.right_transposed, shape_.right_step), shape_.bias ? slots[inputs_[2]] : at::Tensor());
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override {
    if (product_) return fmt::format("cuBLASLt product {} -> {}", shape_.text(), output_);
    return fmt::format("libtorch's product {}x{}x{} -> {}", shape_.rows, shape_.depth, shape_.columns, output_);
  }

 private:
  static at::Tensor matrix_of(const at::Tensor& tensor, std::int64_t rows, std::int64_t columns, bool transposed, std::int64_t step) {
    return tensor.as_strided({rows, columns}, transposed ? std::array<std::int64_t, 2>{1, step} : std::array<std::int64_t, 2>{step, 1});
  }

  ProductShape shape_;
  std::shared_ptr<const Product> product_;
  std::vector<runtime::SlotId> inputs_;
  runtime::SlotId output_;
};

/// A value that shows the whole of another's memory, by itself.
ValueId only_view(const Program& program, const Uses& uses, ValueId value) {
  if (!uses.readers(value).empty() || uses.is_output(value)) return graph::kNoValue;
  ValueId found = graph::kNoValue;
  for (const auto& [id, view] : program.views) {
    if (view.root != value) continue;
    if (found != graph::kNoValue || view.offset != 0 || uses.is_output(id)) return graph::kNoValue;
    found = id;
  }
  if (found == graph::kNoValue) return found;
  const TensorType& type = program.graph.type_of(found);
  return type.is_contiguous() && type.element_count() == program.graph.type_of(value).element_count() ? found : graph::kNoValue;
}

/// Whether what reads a value would be generated kernels.
bool fuses_with_readers(const Program& program, const Uses& uses, ValueId value) {
  const auto& readers = uses.readers(value);
  if (readers.empty() || uses.has_views(value) || uses.is_output(value)) return false;
  return std::all_of(readers.begin(), readers.end(), [&](std::int32_t reader) {
    return !program.has_effect(reader) && decompose(program, program.graph.nodes[static_cast<std::size_t>(reader)]).has_value();
  });
}

/// Seconds of a kernel that only adds: its launch, and memory read and written.
double seconds_of_addition(const TensorType& type) {
  constexpr double kLaunch = 1.5e-6, kBytesPerSecond = 3e12;
  return kLaunch + 2.0 * static_cast<double>(type.element_count()) * static_cast<double>(c10::elementSize(type.dtype)) / kBytesPerSecond;
}

class Splitter {
 public:
  explicit Splitter(Program& program) : program_(program), uses_(program) {}

  void run() {
    for (std::size_t i = 0; i < program_.graph.nodes.size(); ++i) {
      const Node& node = program_.graph.nodes[i];
      const auto product = match_product(program_, static_cast<std::int32_t>(i));
      const ValueId sum = product && product->shape.bias ? sum_of(*product) : graph::kNoValue;
      if (sum != graph::kNoValue && is_worth_it(*product, sum)) {
        split(node, *product, sum);
      } else {
        nodes_.push_back(node);
      }
    }
    program_.graph.nodes = std::move(nodes_);
  }

 private:
  /// What the addition gives: where it has another form by the time it is read, that.
  ValueId sum_of(const MatchedProduct& product) const {
    const ValueId view = only_view(program_, uses_, product.output);
    return view != graph::kNoValue && fuses_with_readers(program_, uses_, view) ? view : product.output;
  }

  bool is_worth_it(const MatchedProduct& product, ValueId sum) const {
    ProductShape plain = product.shape;
    plain.bias = false;
    const int device = program_.device.index();
    const bool fuses = fuses_with_readers(program_, uses_, sum);
    const double addition = fuses ? 0 : seconds_of_addition(program_.graph.type_of(product.output));
    return fastest_product(plain, device).seconds + addition < fastest_product(product.shape, device).seconds;
  }

  void split(const Node& node, const MatchedProduct& product, ValueId sum) {
    auto find = [](const char* name, const char* overload) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, overload); };
    Node alone = node;
    if (node.op_name() == "aten::addmm") {
      alone.op = find("aten::mm", ""), alone.arguments = {node.arguments[1], node.arguments[2]};
    } else {
      alone.arguments[2] = Argument::constant({});
    }
    ValueId multiplied = program_.add_value(program_.graph.type_of(product.output), "product");
    alone.outputs = {multiplied};
    nodes_.push_back(std::move(alone));
    if (sum != product.output) {  // the form is the product's then
      const ValueId formed = program_.add_value(program_.graph.type_of(sum), "product");
      program_.views.erase(sum);
      program_.views.emplace(formed, View{multiplied, 0, {}});
      multiplied = formed;
    }
    nodes_.push_back({find("aten::add", "Tensor"), {Argument::reference(multiplied), Argument::reference(product.bias), Argument::constant(std::int64_t{1})}, {sum}, {-1}, node.mode, node.source});
  }

  Program& program_;
  Uses uses_;
  std::vector<Node> nodes_;
};

}  // namespace

void split_biases(Program& program) { Splitter(program).run(); }

static bool is_claimed(const std::vector<LibraryKernel>& claims, std::int32_t node) {
  return std::any_of(claims.begin(), claims.end(), [&](const LibraryKernel& claim) { return std::find(claim.nodes.begin(), claim.nodes.end(), node) != claim.nodes.end(); });
}

void claim_products(const Program& program, std::vector<LibraryKernel>& claims) {
  const Uses uses(program);
  for (std::size_t i = 0; i < program.graph.nodes.size(); ++i) {
    const auto index = static_cast<std::int32_t>(i);
    const auto product = match_any(program, index);
    if (!product || is_claimed(claims, index)) continue;
    FastProduct fast;
    if (is_type_served(program.graph.type_of(product->output).dtype)) fast = fastest_product(product->shape, program.device.index());
    if (!fast.product && !is_large_result(program, uses, product->output)) continue;
    LibraryKernel kernel;
    kernel.nodes = {index};
    kernel.inputs = {product->input, product->weight};
    if (product->shape.bias) kernel.inputs.push_back(product->bias);
    kernel.outputs = {product->output};
    kernel.make = [shape = product->shape, made = std::move(fast.product)](std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) {
      return std::make_unique<ProductStep>(shape, made, std::move(inputs), outputs[0]);
    };
    claims.push_back(std::move(kernel));
  }
}

}  // namespace dynrun::lowering::gpu
