#pragma once
// How the matchers of library kernels work together: which nodes are taken, and where oneDNN's relu is safe.

#include "lowering/extern/arguments.h"
#include "lowering/extern/bounds.h"
#include "lowering/extern/epilogue.h"
#include "lowering/extern/library_kernel.h"

#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace dynrun::lowering {

/// At run time: is the input of a guarded kernel so small that its result is finite? Proven by bounds that start at inputs
/// checked by an earlier kernel of the run (`read`) or by this one (`check`, which tells later ones through `write`).
struct FiniteGuard {
  bool impossible = false;  // a weight is not finite, say
  runtime::SlotId read = -1, write = -1;
  std::vector<runtime::SlotId> check;

  bool holds(runtime::Slots& slots) const;
  /// For dumps: " (checks its input)" and the like, empty where everything is proven.
  const char* describe() const;
};

using MakeStep = std::function<std::unique_ptr<runtime::Step>(FiniteGuard guard, std::vector<runtime::SlotId> inputs,
                                                              std::vector<runtime::SlotId> outputs)>;

/// A library kernel before its guard is settled.
struct Claim {
  LibraryKernel kernel;  // without `make`
  MakeStep make;
  /// Set when an epilogue needs a finite result of nodes[0]: the input that decides it.
  ValueId guarded_input = graph::kNoValue;
  /// The value that outputs[0] holds before the call (an accumulator), when its size matters too.
  ValueId guarded_accumulator = graph::kNoValue;
};

class ClaimContext {
 public:
  explicit ClaimContext(Program& program);

  Program& program;
  Uses uses;
  Bounds bounds;

  const Node& node(std::int32_t index) const { return program.graph.nodes[static_cast<std::size_t>(index)]; }
  const TensorType& type(ValueId id) const { return program.graph.type_of(id); }
  /// Nobody took it, it has no effect and runs without autocast.
  bool is_free(std::int32_t index) const;
  /// The one reader of `id` when it is free and `id` may vanish inside a fused call; -1 otherwise.
  std::int32_t sole_reader(ValueId id) const;
  /// True when every node of the ascending list may run at the place of the last.
  bool can_group(const std::vector<std::int32_t>& nodes) const;
  void take(const std::vector<std::int32_t>& nodes);
  /// The tensor of `id`, noted as read at compile time.
  at::Tensor read_known(ValueId id);
  /// A form of the weights of the node with this result, made by `make` once for all lowerings that share them.
  at::Tensor packed(ValueId result, const std::string& form, const std::function<at::Tensor()>& make) const;
  /// The same if it was made; else undefined.
  at::Tensor known_packed(ValueId result, const std::string& form) const;
  /// Drops a constant that was packed for the one node that reads it: a folded weight need not be kept twice.
  void give_up_constant(ValueId id);

 private:
  std::vector<bool> taken_;
};

/// What follows an operator and can be computed with it: an addend, then a pointwise function, each optional.
struct Tail {
  std::vector<std::int32_t> nodes;  // ascending, without the operator itself
  ValueId addend = graph::kNoValue;
  std::optional<Epilogue> epilogue;
  ValueId result = graph::kNoValue;
};

enum class TailForm { kUnaryOnly, kAddOrUnary, kAddThenRelu };
/// `allow_addend` says whether a value may be the addend (layout, type). `sums`: the operator itself is computed as a sum, behind
/// which oneDNN applies relu alone.
Tail match_tail(const ClaimContext& context, std::int32_t node, TailForm form,
                const std::function<bool(ValueId addend, ValueId sum)>& allow_addend, bool sums = false);

// The matchers, one file each; null when the node is not theirs.
std::optional<Claim> claim_convolution(ClaimContext& context, std::int32_t index);
std::optional<Claim> claim_linear(ClaimContext& context, std::int32_t index);
std::optional<Claim> claim_matmul(ClaimContext& context, std::int32_t index);
std::optional<Claim> claim_attention(ClaimContext& context, std::int32_t index);

/// Settles the guards: bounds are followed through the program, and an input is checked at run time where they end.
void settle_guards(ClaimContext& context, std::vector<Claim>& claims);

}  // namespace dynrun::lowering
