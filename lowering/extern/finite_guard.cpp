#include "lowering/extern/bounds.h"
#include "lowering/extern/candidates.h"
#include "lowering/extern/claim.h"
#include "runtime/plan.h"

#include <ATen/Functions.h>

#include <algorithm>
#include <atomic>
#include <cmath>

namespace dynrun::lowering {
namespace {

[[gnu::always_inline]] inline bool find_large(const float* data, std::int64_t count) {
  constexpr auto kLimit = static_cast<float>(Bounds::kChecked);
  std::int32_t large = 0;
  for (std::int64_t index = 0; index < count; ++index) large |= !(std::abs(data[index]) <= kLimit);
  return large != 0;
}

#if defined(__x86_64__)
[[gnu::target("avx2")]] bool find_large_avx2(const float* data, std::int64_t count) {
  return find_large(data, count);
}
#endif

/// True when an element is larger than the limit, infinite or NaN.
bool any_large(const float* data, std::int64_t count) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return find_large_avx2(data, count);
#endif
  return find_large(data, count);
}

bool all_small(const at::Tensor& tensor) {
  constexpr std::int64_t kGrain = 1 << 16;
  const at::Tensor dense = tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  const float* data = dense.const_data_ptr<float>();
  std::atomic<bool> small{true};
  runtime::parallel_for(dense.numel(), kGrain, [&](std::int64_t begin, std::int64_t end) {
    if (any_large(data + begin, end - begin)) small = false;
  });
  return small;
}

/// What a kernel that makes its own outputs puts into a flag's slot.
const at::Tensor& flag_tensor(bool value) {
  static const at::Tensor kTrue = at::ones({1}, at::kBool), kFalse = at::zeros({1}, at::kBool);
  return value ? kTrue : kFalse;
}

ValueId add_flag(Program& program, std::size_t number) {
  TensorType type;
  type.dtype = c10::ScalarType::Bool;
  type.sizes = {1};
  type.strides = {1};
  return program.add_value(type, "inputs_small" + std::to_string(number));
}

struct Settled {
  ValueId read = graph::kNoValue, write = graph::kNoValue;
  bool check_input = false, check_accumulator = false, impossible = false;
};

/// Gives the kernel its final `make`, with the flags among its inputs and outputs.
void bind_guard(Claim& claim, const Settled& settled) {
  LibraryKernel& kernel = claim.kernel;
  const std::size_t input_count = kernel.inputs.size(), output_count = kernel.outputs.size();
  const auto guarded = static_cast<std::size_t>(std::find(kernel.inputs.begin(), kernel.inputs.end(), claim.guarded_input) -
                                                kernel.inputs.begin());
  if (settled.write != graph::kNoValue) kernel.outputs.push_back(settled.write);
  if (settled.read != graph::kNoValue) kernel.inputs.push_back(settled.read);
  kernel.make = [make = std::move(claim.make), settled, guarded, input_count, output_count](
                    std::vector<runtime::SlotId> inputs, std::vector<runtime::SlotId> outputs) {
    FiniteGuard guard;
    guard.impossible = settled.impossible;
    if (settled.read != graph::kNoValue) guard.read = inputs[input_count];
    if (settled.write != graph::kNoValue) guard.write = outputs[output_count];
    if (settled.check_input) guard.check.push_back(inputs[guarded]);
    if (settled.check_accumulator) guard.check.push_back(outputs[0]);
    inputs.resize(input_count), outputs.resize(output_count);
    return make(guard, std::move(inputs), std::move(outputs));
  };
}

/// Follows the bounds through one guarded kernel, checking at run time what has none.
Settled settle(Program& program, Bounds& bounds, const Uses& uses, const Claim& claim) {
  // The trunk of a residual network is checked before its bound is so large that every branch would need a check of its own.
  constexpr double kTrunkLimit = 1e24;
  Settled settled;
  const bool is_trunk = uses.readers(program.root(claim.guarded_input)).size() > 1;
  if (is_trunk && bounds.of(claim.guarded_input) > kTrunkLimit) {
    settled.check_input = true;
    bounds.set(program.root(claim.guarded_input), Bounds::kChecked);
  }
  auto finite = [&] {
    bool result = true;
    for (std::int32_t index : claim.kernel.nodes) {
      const Node& node = program.graph.nodes[static_cast<std::size_t>(index)];
      bounds.visit(node);
      result = result && bounds.of(node.outputs[0]) <= Bounds::kFinite;
    }
    return result;
  };
  if (finite()) return settled;
  settled.check_input = true;
  bounds.set(program.root(claim.guarded_input), Bounds::kChecked);
  if (finite()) return settled;
  if (claim.guarded_accumulator != graph::kNoValue) {
    settled.check_accumulator = true;
    bounds.set(program.root(claim.guarded_accumulator), Bounds::kChecked);
    if (finite()) return settled;
  }
  // The trunk's check may stay: others build on it.
  settled.check_accumulator = false;
  settled.impossible = true;
  return settled;
}

}  // namespace

bool FiniteGuard::holds(runtime::Slots& slots) const {
  bool small = !impossible && (read < 0 || *slots[read].const_data_ptr<bool>());
  if (write < 0) return small;
  for (runtime::SlotId slot : check) small = small && all_small(slots[slot]);
  if (slots[write].defined())
    *slots[write].mutable_data_ptr<bool>() = small;
  else
    slots[write] = flag_tensor(small);
  return small;
}

const char* FiniteGuard::describe() const {
  if (impossible) return " (activation apart: a bound is not finite)";
  return check.empty() ? "" : " (checks its input)";
}

void settle_guards(ClaimContext& context, std::vector<Claim>& claims) {
  const OneThread one_thread;
  Program& program = context.program;
  Bounds& bounds = context.bounds;
  const Uses& uses = context.uses;
  const bool any =
      std::any_of(claims.begin(), claims.end(), [](const Claim& claim) { return claim.guarded_input != graph::kNoValue; });
  if (!any) {
    for (Claim& claim : claims) bind_guard(claim, {});
    return;
  }
  ValueId flag = graph::kNoValue;
  std::size_t flags = 0, next = 0;
  const auto node_count = static_cast<std::int32_t>(program.graph.nodes.size());
  for (std::int32_t index = 0; index < node_count; ++index) {
    bounds.visit(program.graph.nodes[static_cast<std::size_t>(index)]);
    if (next == claims.size() || claims[next].kernel.nodes.back() != index) continue;
    Claim& claim = claims[next++];
    Settled settled;
    if (claim.guarded_input != graph::kNoValue) {
      settled = settle(program, bounds, uses, claim);
      settled.read = flag;
      if (settled.check_input) flag = settled.write = add_flag(program, ++flags);
    }
    bind_guard(claim, settled);
  }
}

}  // namespace dynrun::lowering
