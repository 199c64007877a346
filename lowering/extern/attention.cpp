// Scaled dot product attention, by dynrun's own kernel or as oneDNN products around libtorch's softmax, where that is faster
// than libtorch's kernel.

#include "lowering/extern/candidates.h"
#include "lowering/extern/claim.h"
#include "lowering/extern/flash_attention.h"

#include <ATen/Functions.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

namespace dynrun::lowering {
namespace {

struct AttentionPlan {
  double scale = 1;
  bool causal = false;
  at::Tensor hidden;  // [queries, keys], true where a causal query must not see a key; undefined when not causal
  at::Tensor
      mask;  // added to the scores, [batch, heads, queries, keys] by expansion, dense in keys; undefined when there is none
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
  at::Tensor all_scores = scores.view({query.size(0), query.size(1), q.size(1), k.size(1)});
  if (plan.mask.defined()) all_scores.copy_(plan.mask);
  onednn::matmul(q, k.transpose(1, 2), scores, plan.mask.defined() ? 1 : 0, static_cast<float>(plan.scale));
  if (plan.causal) all_scores.masked_fill_(plan.hidden, -std::numeric_limits<double>::infinity());
  at::softmax_out(scores, scores, -1);
  if (output.is_contiguous()) {
    onednn::matmul(scores, v, output.view({-1, output.size(2), output.size(3)}), 0, 1);
    return;
  }
  at::Tensor result = scratch.take(q.sizes());
  onednn::matmul(scores, v, result, 0, 1);
  output.copy_(result.view(output.sizes()));
}

void attend_by_flash(const AttentionPlan& plan, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                     const at::Tensor& output, const at::Tensor& buffer) {
  auto view = [](const at::Tensor& tensor) {
    return HeadView{tensor.const_data_ptr<float>(), tensor.stride(0), tensor.stride(1), tensor.stride(2)};
  };
  FlashAttention call;
  call.query = view(query), call.key = view(key), call.value = view(value);
  if (plan.mask.defined()) call.mask = view(plan.mask);
  call.output = output.mutable_data_ptr<float>();
  call.output_batch_stride = output.stride(0), call.output_head_stride = output.stride(1),
  call.output_row_stride = output.stride(2);
  call.batch = query.size(0), call.heads = query.size(1), call.queries = query.size(2), call.keys = key.size(2),
  call.width = query.size(3);
  call.scale = static_cast<float>(plan.scale);
  call.causal = plan.causal;
  call.scratch = buffer.mutable_data_ptr<float>();
  run_flash(call);
}

using Attend = void (*)(const AttentionPlan&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const at::Tensor&,
                        const at::Tensor&);

class AttentionStep : public runtime::Step {
 public:
  AttentionStep(AttentionPlan plan, Attend attend, std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs)
      : plan_(std::move(plan)), attend_(attend), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}

  void run(runtime::Slots& slots) const override {
    attend_(plan_, slots[inputs_[0]], slots[inputs_[1]], slots[inputs_[2]], slots[outputs_[0]], slots[outputs_[1]]);
  }

  runtime::StepKind kind() const override { return runtime::StepKind::kLibrary; }
  std::string describe() const override {
    return fmt::format("{} attention{}{} ({}) -> {}", attend_ == attend_by_flash ? "flash" : "oneDNN",
                       plan_.causal ? " causal" : "", plan_.mask.defined() ? " masked" : "", fmt::join(inputs_, ", "),
                       outputs_[0]);
  }

 private:
  AttentionPlan plan_;
  Attend attend_;
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

bool fits_flash(const AttentionTypes& types, const AttentionPlan& plan) {
  for (const TensorType* type : {&types.query, &types.key, &types.value, &plan.output_type}) {
    if (type->strides[3] != 1) return false;
  }
  return can_run_flash(types.key.sizes[2], types.query.sizes[3]);
}

/// How many floats of scratch the way takes.
std::int64_t scratch_of(Attend way, const AttentionTypes& types) {
  if (way != attend_by_flash) return scratch_size(types.query, types.key, types.value);
  return flash_scratch_size(types.query.sizes[0], types.query.sizes[1], types.key.sizes[2], types.query.sizes[3]);
}

/// Null: libtorch's own.
Attend choose_way(const AttentionTypes& types, const AttentionPlan& plan) {
  auto layout = [](const TensorType& type) { return layout_text(type.sizes, type.strides); };
  Question question{fmt::format("attention laid out {} {} {} mask {}{}", layout(types.query), layout(types.key), layout(types.value), plan.mask.defined(),
                                plan.causal ? " causal" : ""),
                    types.query.sizes};
  question.sizes.push_back(types.key.sizes[2]);
  const bool has_flash = fits_flash(types, plan), has_onednn = onednn::available();
  at::Tensor q, k, v, result, scratch;
  auto prepare = [&] {
    if (q.defined()) return;
    auto make = [](const TensorType& type) { return at::empty_strided(type.sizes, type.strides).fill_(0.5); };
    q = make(types.query), k = make(types.key), v = make(types.value);
    result = at::empty_strided(plan.output_type.sizes, plan.output_type.strides);
    scratch = at::empty({std::max(scratch_of(attend, types), has_flash ? scratch_of(attend_by_flash, types) : 0)});
  };
  auto own = [&] {
    prepare();
    const std::optional<at::Tensor> mask = plan.mask.defined() ? std::optional<at::Tensor>(plan.mask) : std::nullopt;
    at::scaled_dot_product_attention(q, k, v, mask, 0.0, plan.causal, plan.scale);
  };
  auto flash = [&] {
    prepare();
    attend_by_flash(plan, q, k, v, result, scratch);
  };
  auto library = [&] {
    prepare();
    attend(plan, q, k, v, result, scratch);
  };
  constexpr Attend kWays[] = {attend_by_flash, attend, nullptr};
  return kWays[fastest(question, {{"flash", flash, 1, has_flash}, {"oneDNN", library, 1, has_onednn}, {"libtorch", own}})];
}

struct Mask {
  bool is_understood = false;
  at::Tensor added;
  bool is_causal = false;  // nothing is added, but query i sees keys 0 to i only
};

/// True for a mask that hides what follows a query and changes nothing else.
bool is_causal_mask(const at::Tensor& added, const AttentionTypes& types) {
  constexpr double kHides = -1e30;  // some models write the least float instead of -inf
  if (added.size(-2) != types.query.sizes[2]) return false;
  const at::Tensor hides = at::ones({types.query.sizes[2], types.key.sizes[2]}, at::kBool).triu_(1);
  const at::Tensor right = at::where(hides, added <= kHides, added == 0);
  return right.all().item<bool>();
}

/// What is added to the scores for a mask that is known at compile time. Not understood: one that is not known, or that hides
/// every key from a query (libtorch has a rule of its own for those).
Mask read_mask(ClaimContext& context, const Argument& argument, const AttentionTypes& types) {
  auto id = optional_tensor(context.program, argument);
  if (!id) return {};
  if (*id == graph::kNoValue) return {true, {}};
  auto tensor = context.program.known(*id);
  if (!tensor || tensor->dim() < 2 || tensor->dim() > 4) return {};
  context.program.mark_folded(*id);
  at::Tensor added = *tensor;
  if (added.scalar_type() == at::kBool) {
    if (added.all().item<bool>()) return {true, {}};
    added = at::zeros(added.sizes()).masked_fill_(added.logical_not(), -std::numeric_limits<double>::infinity());
  }
  if (added.scalar_type() != at::kFloat) return {};
  const std::int64_t keys = types.key.sizes[2];
  std::vector<std::int64_t> sizes = added.sizes().vec();
  sizes.back() = keys;
  added = added.expand(sizes).clone(at::MemoryFormat::Contiguous);
  if (!added.amax(-1).isfinite().all().item<bool>()) return {};
  if (is_causal_mask(added, types)) return {true, {}, true};
  return {true, added.expand({types.query.sizes[0], types.query.sizes[1], types.query.sizes[2], keys})};
}

}  // namespace

std::optional<Claim> claim_attention(ClaimContext& context, std::int32_t index) {
  const Node& node = context.node(index);
  if (node.op_name() != "aten::scaled_dot_product_attention") return std::nullopt;
  auto is_none = [&](std::size_t argument) {
    return node.arguments[argument].is_constant() && node.arguments[argument].constant().isNone();
  };
  auto dropout = number_argument(node.arguments[4]), scale = number_argument(node.arguments[6]);
  auto causal = bool_argument(node.arguments[5]);
  if (dropout != 0.0 || !causal || bool_argument(node.arguments[7]) != std::optional<bool>(false)) return std::nullopt;
  if ((!is_none(6) && !scale) || (*causal && !is_none(3))) return std::nullopt;
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
  constexpr std::int64_t kMostScores = 1 << 24;
  const auto& sizes = types.query.sizes;
  if (sizes[0] * sizes[1] * sizes[2] * types.key.sizes[2] > kMostScores) return std::nullopt;
  AttentionPlan plan;
  plan.scale = scale ? *scale : 1 / std::sqrt(static_cast<double>(sizes[3]));
  if (!(std::abs(plan.scale) > 0)) return std::nullopt;
  plan.output_type = context.type(node.outputs[0]);
  const Mask mask = read_mask(context, node.arguments[3], types);
  if (!mask.is_understood) return std::nullopt;
  plan.mask = mask.added;
  plan.causal = *causal || mask.is_causal;
  if (plan.causal) plan.hidden = at::ones({sizes[2], types.key.sizes[2]}, at::kBool).triu_(1);
  const Attend way = choose_way(types, plan);
  if (way == nullptr) return std::nullopt;
  TensorType scratch;
  scratch.sizes = {scratch_of(way, types)};
  scratch.strides = {1};
  Claim claim;
  claim.kernel.nodes = {index};
  claim.kernel.inputs = inputs;
  // `types` ends here: a new value may move it.
  claim.kernel.outputs = {node.outputs[0], context.program.add_value(scratch, "attention_scratch")};
  claim.make = [plan, way](FiniteGuard, std::vector<runtime::SlotId> slots, std::vector<runtime::SlotId> outputs) {
    return std::make_unique<AttentionStep>(plan, way, std::move(slots), std::move(outputs));
  };
  return claim;
}

}  // namespace dynrun::lowering
