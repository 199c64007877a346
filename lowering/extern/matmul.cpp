// Products of two activations, two matrices or two equal batches of them, by oneDNN where it is faster than libtorch's BLAS.

#include "lowering/extern/candidates.h"
#include "lowering/extern/claim.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace dynrun::lowering {
namespace {

/// Merges the leading dimensions: [.., m, k] as one batch of matrices. A copy when the strides do not allow a view.
at::Tensor as_batch(const at::Tensor& tensor) {
  if (tensor.dim() <= 3) return tensor;
  return tensor.reshape({-1, tensor.size(-2), tensor.size(-1)});
}

class MatmulStep : public runtime::Step {
 public:
  MatmulStep(std::vector<runtime::SlotId> inputs, runtime::SlotId output) : inputs_(std::move(inputs)), output_(output) {}

  void run(runtime::Slots& slots) const override {
    onednn::matmul(as_batch(slots[inputs_[0]]), as_batch(slots[inputs_[1]]), as_batch(slots[output_]), 0, 1);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override { return fmt::format("oneDNN matmul ({}, {}) -> {}", inputs_[0], inputs_[1], output_); }

 private:
  std::vector<runtime::SlotId> inputs_;
  runtime::SlotId output_;
};

/// Equal ranks of two or more, equal leading sizes (no broadcasting), nothing empty.
bool fits(const TensorType& a, const TensorType& b) {
  const std::size_t rank = a.sizes.size();
  if (rank < 2 || b.sizes.size() != rank || a.element_count() == 0 || b.element_count() == 0) return false;
  return std::equal(a.sizes.begin(), a.sizes.end() - 2, b.sizes.begin());
}

bool is_faster(const TensorType& a, const TensorType& b) {
  Question question{fmt::format("matmul laid out {} by {}", layout_text(a.sizes, a.strides), layout_text(b.sizes, b.strides)), a.sizes};
  question.sizes.push_back(b.sizes.back());
  at::Tensor x, y, result;
  auto prepare = [&] {
    if (x.defined()) return;
    x = at::empty_strided(a.sizes, a.strides).fill_(1), y = at::empty_strided(b.sizes, b.strides).fill_(1);
    result = at::matmul(x, y);
  };
  auto own = [&] {
    prepare();
    at::matmul_out(result, x, y);
  };
  auto library = [&] {
    prepare();
    onednn::matmul(as_batch(x), as_batch(y), as_batch(result), 0, 1);
  };
  return fastest(question, {{"libtorch", own}, {"oneDNN", library}}) == 1;
}

}  // namespace

std::optional<Claim> claim_matmul(ClaimContext& context, std::int32_t index) {
  const Node& node = context.node(index);
  const std::string name = node.op_name();
  if (name != "aten::bmm" && name != "aten::matmul" && name != "aten::mm") return std::nullopt;
  if (!onednn::available() || node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue) return std::nullopt;
  auto a = tensor_argument(context.program, node.arguments[0]), b = tensor_argument(context.program, node.arguments[1]);
  if (!a || !b || !is_plain_float(context.program, *a) || !is_plain_float(context.program, *b)) return std::nullopt;
  const TensorType& output = context.type(node.outputs[0]);
  if (!fits(context.type(*a), context.type(*b)) || !output.is_contiguous() || !is_plain_float(context.program, node.outputs[0]))
    return std::nullopt;
  if (!is_faster(context.type(*a), context.type(*b))) return std::nullopt;
  Claim claim;
  claim.kernel.nodes = {index};
  claim.kernel.inputs = {*a, *b};
  claim.kernel.outputs = {node.outputs[0]};
  claim.make = [](FiniteGuard, std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) {
    return std::make_unique<MatmulStep>(std::move(inputs), outputs[0]);
  };
  return claim;
}

}  // namespace dynrun::lowering
