// Scaled dot product attention as oneDNN products around libtorch's softmax, where that is faster than libtorch's flash kernel.

#include "lowering/extern/candidates.h"
#include "lowering/extern/claim.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

namespace dynrun::lowering {
namespace {

struct AttentionPlan {
  double scale = 1;
  at::Tensor
      excluded;  // broadcast to [batch, heads, queries, keys], true where a key is not to be seen; undefined when all are
  TensorType output_type;
};

/// Hands out pieces of one buffer.
class Scratch {
 public:
  explicit Scratch(const at::Tensor& buffer) : buffer_(buffer) {}
  at::Tensor take(at::IntArrayRef sizes) {
    const std::int64_t count = c10::multiply_integers(sizes);
    at::Tensor piece = buffer_.narrow(0, next_, count).view(sizes);
    next_ += count;
    return piece;
  }
  /// [batch, heads, length, width] as contiguous [batch * heads, length, width], copied where it is not.
  at::Tensor as_heads(const at::Tensor& tensor) {
    if (tensor.is_contiguous()) return tensor.view({-1, tensor.size(2), tensor.size(3)});
    at::Tensor copy = take(tensor.sizes());
    copy.copy_(tensor);
    return copy.view({-1, tensor.size(2), tensor.size(3)});
  }

 private:
  const at::Tensor& buffer_;
  std::int64_t next_ = 0;
};

/// How many floats `attend` takes from its scratch buffer at most.
std::int64_t scratch_size(const TensorType& query, const TensorType& key, const TensorType& value) {
  const std::int64_t scores = query.sizes[0] * query.sizes[1] * query.sizes[2] * key.sizes[2];
  return scores + 2 * query.element_count() + key.element_count() + value.element_count();
}

void attend(const AttentionPlan& plan, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            const at::Tensor& output, const at::Tensor& buffer) {
  Scratch scratch(buffer);
  const at::Tensor q = scratch.as_heads(query), k = scratch.as_heads(key), v = scratch.as_heads(value);
  at::Tensor scores = scratch.take({q.size(0), q.size(1), k.size(1)});
  onednn::matmul(q, k.transpose(1, 2), scores, 0, static_cast<float>(plan.scale));
  if (plan.excluded.defined()) {
    scores.view({query.size(0), query.size(1), q.size(1), k.size(1)})
        .masked_fill_(plan.excluded, -std::numeric_limits<double>::infinity());
  }
  at::softmax_out(scores, scores, -1);
  if (output.is_contiguous()) {
    onednn::matmul(scores, v, output.view({-1, output.size(2), output.size(3)}), 0, 1);
    return;
  }
  at::Tensor result = scratch.take(q.sizes());
  onednn::matmul(scores, v, result, 0, 1);
  output.copy_(result.view(output.sizes()));
}

class AttentionStep : public runtime::Step {
 public:
  AttentionStep(AttentionPlan plan, std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs)
      : plan_(std::move(plan)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  void run(runtime::Slots& slots) const override {
    attend(plan_, slots[inputs_[0]], slots[inputs_[1]], slots[inputs_[2]], slots[outputs_[0]], slots[outputs_[1]]);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override {
    return fmt::format("oneDNN attention ({}) -> {}", fmt::join(inputs_, ", "), outputs_[0]);
  }

 private:
  AttentionPlan plan_;
  std::vector<runtime::SlotId> inputs_, outputs_;  // outputs: the result, scratch memory
};

struct AttentionTypes {
  const TensorType &query, &key, &value;
};

/// Four dimensions, the same batch and heads, values as wide as keys.
bool fits(const AttentionTypes& types) {
  for (const TensorType* type : {&types.query, &types.key, &types.value}) {
    if (type->sizes.size() != 4 || type->element_count() == 0) return false;
    if (type->sizes[0] != types.query.sizes[0] || type->sizes[1] != types.query.sizes[1]) return false;
    if (type->sizes[3] != types.query.sizes[3]) return false;
  }
  return types.key.sizes[2] == types.value.sizes[2];
}

bool is_faster(const AttentionTypes& types, const AttentionPlan& plan) {
  const bool masked = plan.excluded.defined();
  const std::string key = fmt::format("attention {} keys {} strides {} {} {} masked {}", fmt::join(types.query.sizes, "x"),
                                      types.key.sizes[2], fmt::join(types.query.strides, ","),
                                      fmt::join(types.key.strides, ","), fmt::join(types.value.strides, ","), masked);
  at::Tensor q, k, v, result, scratch;
  auto prepare = [&] {
    if (q.defined()) return;
    auto make = [](const TensorType& type) { return at::empty_strided(type.sizes, type.strides).fill_(0.5); };
    q = make(types.query), k = make(types.key), v = make(types.value);
    result = at::empty_strided(plan.output_type.sizes, plan.output_type.strides);
    scratch = at::empty({scratch_size(types.query, types.key, types.value)});
  };
  auto own = [&] {
    prepare();
    std::optional<at::Tensor> mask;
    if (masked) mask = plan.excluded.logical_not();
    at::scaled_dot_product_attention(q, k, v, mask, 0.0, false, plan.scale);
  };
  auto library = [&] {
    prepare();
    attend(plan, q, k, v, result, scratch);
  };
  return fastest(key, {{"libtorch", own}, {"oneDNN", library}}) == 1;
}

/// True where a query must not see a key; undefined when every query sees every key. Nullopt for a mask that is not known at
/// compile time, is not boolean, or hides every key from a query (libtorch has a rule of its own for those).
std::optional<at::Tensor> excluded_keys(ClaimContext& context, const Argument& mask, const AttentionTypes& types, bool causal) {
  auto id = optional_tensor(context.program, mask);
  if (!id || (causal && *id != graph::kNoValue)) return std::nullopt;
  if (causal) return at::ones({types.query.sizes[2], types.key.sizes[2]}, at::kBool).triu_(1);
  if (*id == graph::kNoValue) return at::Tensor();
  auto tensor = context.program.known(*id);
  if (!tensor || tensor->scalar_type() != at::kBool || tensor->dim() < 2 || tensor->dim() > 4) return std::nullopt;
  context.program.mark_folded(*id);
  if (tensor->all().item<bool>()) return at::Tensor();
  if (!tensor->any(-1).all().item<bool>()) return std::nullopt;
  return tensor->logical_not().contiguous();
}

}  // namespace

std::optional<Claim> claim_attention(ClaimContext& context, std::int32_t index) {
  const Node& node = context.node(index);
  if (node.op_name() != "aten::scaled_dot_product_attention" || !onednn::available()) return std::nullopt;
  auto dropout = number_argument(node.arguments[4]);
  auto causal = bool_argument(node.arguments[5]);
  if (!dropout || *dropout != 0 || !causal || bool_argument(node.arguments[7]) != std::optional<bool>(false))
    return std::nullopt;
  const bool default_scale = node.arguments[6].is_constant() && node.arguments[6].constant().isNone();
  auto scale = number_argument(node.arguments[6]);
  if (!default_scale && !scale) return std::nullopt;
  std::vector<ValueId> inputs;
  for (std::size_t argument = 0; argument < 3; ++argument) {
    auto id = tensor_argument(context.program, node.arguments[argument]);
    if (!id || !is_plain_float(context.program, *id)) return std::nullopt;
    inputs.push_back(*id);
  }
  if (node.outputs.size() != 1 || node.outputs[0] == graph::kNoValue || !is_plain_float(context.program, node.outputs[0]))
    return std::nullopt;
  const AttentionTypes types{context.type(inputs[0]), context.type(inputs[1]), context.type(inputs[2])};
  if (!fits(types)) return std::nullopt;
  AttentionPlan plan;
  plan.scale = default_scale ? 1 / std::sqrt(static_cast<double>(types.query.sizes[3])) : *scale;
  plan.output_type = context.type(node.outputs[0]);
  if (!(std::abs(plan.scale) > 0)) return std::nullopt;
  constexpr std::int64_t kMostScores = 1 << 24;
  if (types.query.sizes[0] * types.query.sizes[1] * types.query.sizes[2] * types.key.sizes[2] > kMostScores)
    return std::nullopt;
  auto excluded = excluded_keys(context, node.arguments[3], types, *causal);
  if (!excluded) return std::nullopt;
  plan.excluded = *excluded;
  if (!is_faster(types, plan)) return std::nullopt;
  Claim claim;
  claim.kernel.nodes = {index};
  claim.kernel.inputs = inputs;
  TensorType scratch;
  scratch.sizes = {scratch_size(types.query, types.key, types.value)};
  scratch.strides = {1};
  // `types` and `node` end here: a new value may move them.
  claim.kernel.outputs = {node.outputs[0], graph::kNoValue};
  claim.kernel.outputs[1] = context.program.add_value(scratch, "attention_scratch");
  claim.make = [plan](FiniteGuard, std::vector<runtime::SlotId> slots, std::vector<runtime::SlotId> outputs) {
    return std::make_unique<AttentionStep>(plan, std::move(slots), std::move(outputs));
  };
  return claim;
}

}  // namespace dynrun::lowering
