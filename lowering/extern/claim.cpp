#include "lowering/extern/claim.h"

#include "lowering/shared.h"

#include "lowering/extern/candidates.h"

#include <algorithm>

namespace dynrun::lowering {
namespace {

/// The value added to `sum_of` by an aten::add.Tensor without a factor, when there is one.
std::optional<ValueId> addend_of(const Program& program, const Node& node, ValueId sum_of) {
  if (node.op_name() != "aten::add.Tensor" || number_argument(node.arguments[2]) != 1.0) return std::nullopt;
  auto left = tensor_argument(program, node.arguments[0]), right = tensor_argument(program, node.arguments[1]);
  if (!left || !right || (*left == sum_of) == (*right == sum_of)) return std::nullopt;
  return *left == sum_of ? *right : *left;
}

bool same_type_but_strides(const TensorType& a, const TensorType& b) {
  return a.dtype == b.dtype && a.device == b.device && a.sizes == b.sizes;
}

}  // namespace

ClaimContext::ClaimContext(Program& claimed)
    : program(claimed), uses(claimed), bounds(claimed) {
  for (std::size_t i = 0; i < claimed.graph.nodes.size(); i++) taken_.push_back(claimed.touches_unsized(static_cast<std::int32_t>(i)));
}

bool ClaimContext::is_free(std::int32_t index) const {
  return !taken_[static_cast<std::size_t>(index)] && !program.has_effect(index) && !node(index).mode.autocast;
}

std::int32_t ClaimContext::sole_reader(ValueId id) const {
  const auto& readers = uses.readers(id);
  if (readers.size() != 1 || !uses.only_reader(id, readers[0]) || !is_free(readers[0])) return -1;
  return readers[0];
}

bool ClaimContext::can_group(const std::vector<std::int32_t>& nodes) const {
  return std::all_of(nodes.begin(), nodes.end(),
                     [&](std::int32_t index) { return index == nodes.back() || program.can_sink(index, nodes.back()); });
}

void ClaimContext::take(const std::vector<std::int32_t>& nodes) {
  for (std::int32_t index : nodes) taken_[static_cast<std::size_t>(index)] = true;
}

at::Tensor ClaimContext::read_known(ValueId id) {
  program.mark_folded(id);
  return *program.known(id);
}

at::Tensor ClaimContext::packed(ValueId result, const std::string& form, const std::function<at::Tensor()>& make) const {
  Shared* shared = program.options->shared;
  return shared == nullptr ? make() : shared->constant(result, form, make);
}

at::Tensor ClaimContext::known_packed(ValueId result, const std::string& form) const {
  const Shared* shared = program.options->shared;
  return shared == nullptr ? at::Tensor() : shared->known_constant(result, form);
}

void ClaimContext::give_up_constant(ValueId id) {
  if (program.constants.count(id) == 0 || uses.readers(id).size() != 1 || uses.is_output(id) || uses.has_views(id)) return;
  bounds.remember_weight(id);
  program.constants.erase(id);
}

Tail match_tail(const ClaimContext& context, std::int32_t node, TailForm form,
                const std::function<bool(ValueId, ValueId)>& allow_addend, bool sums) {
  Tail tail;
  std::vector<std::int32_t> group = {node};
  ValueId value = context.node(node).outputs[0];
  const TensorType& type = context.type(value);
  tail.result = value;
  // The next node of the chain, when it may be computed here.
  auto next = [&]() -> std::int32_t {
    const std::int32_t reader = context.sole_reader(value);
    if (reader < 0 || context.node(reader).outputs.size() != 1 || context.node(reader).outputs[0] == graph::kNoValue) return -1;
    if (!same_type_but_strides(type, context.type(context.node(reader).outputs[0]))) return -1;
    group.push_back(reader);
    const bool fits = context.can_group(group);
    group.pop_back();
    return fits ? reader : -1;
  };
  auto append = [&](std::int32_t reader) {
    group.push_back(reader);
    tail.nodes.push_back(reader);
    tail.result = value = context.node(reader).outputs[0];
  };
  std::int32_t reader = next();
  if (reader >= 0 && form != TailForm::kUnaryOnly) {
    auto addend = addend_of(context.program, context.node(reader), value);
    if (addend && allow_addend(*addend, context.node(reader).outputs[0])) {
      tail.addend = *addend;
      append(reader);
      reader = form == TailForm::kAddThenRelu ? next() : -1;
    }
  }
  if (reader >= 0) {
    tail.epilogue = match_epilogue(context.node(reader));
    sums = sums || tail.addend != graph::kNoValue;
    if (tail.epilogue && sums && tail.epilogue->unary.name != "relu") tail.epilogue.reset();
    if (tail.epilogue) append(reader);
  }
  return tail;
}

std::vector<LibraryKernel> claim_library_kernels(Program& program) {
  using Matcher = std::optional<Claim> (*)(ClaimContext&, std::int32_t);
  constexpr Matcher kMatchers[] = {claim_linear, claim_convolution, claim_matmul, claim_attention};
  ClaimContext context(program);
  std::vector<Claim> claims;
  for (std::int32_t index = 0; index < static_cast<std::int32_t>(program.graph.nodes.size()); ++index) {
    if (!context.is_free(index)) continue;
    for (Matcher matcher : kMatchers) {
      if (auto claim = matcher(context, index)) {
        context.take(claim->kernel.nodes);
        claims.push_back(std::move(*claim));
        break;
      }
    }
  }
  std::sort(claims.begin(), claims.end(),
            [](const Claim& a, const Claim& b) { return a.kernel.nodes.back() < b.kernel.nodes.back(); });
  settle_guards(context, claims);
  return_free_memory();
  std::vector<LibraryKernel> kernels;
  for (Claim& claim : claims) kernels.push_back(std::move(claim.kernel));
  return kernels;
}

}  // namespace dynrun::lowering
