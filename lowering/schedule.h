#pragma once
// Which nodes run together, and in which order.

#include "lowering/extern/library_kernel.h"
#include "lowering/loops/loop.h"

#include <variant>

namespace dynrun::lowering {

/// One step to be.
struct Unit {
  /// A fused kernel, a library kernel, or a node for the dispatcher.
  std::variant<FusionGroup, LibraryKernel, std::int32_t> what;
  std::vector<graph::ValueId> reads;   // by a fused kernel: roots; by others: values as they are
  std::vector<graph::ValueId> writes;  // values that come into being
  std::int32_t last_node = 0;

  bool is_kernel() const { return std::holds_alternative<FusionGroup>(what); }
  bool is_library() const { return std::holds_alternative<LibraryKernel>(what); }
  bool is_dispatch() const { return std::holds_alternative<std::int32_t>(what); }
};

/// Fuses what nobody claimed, by the bytes that need not be stored, and puts all units in an order that is right to run:
/// units after what they read, nothing across a node that writes a buffer, effects in program order.
std::vector<Unit> schedule(const Program& program, std::vector<LibraryKernel> claims);

/// The bytes from the first to the last element of a buffer.
std::int64_t buffer_bytes(const graph::TensorType& type);

/// Slots, memory and actions for units in order.
std::unique_ptr<runtime::Executable> build_executable(const Program& program, std::vector<Unit> units,
                                                      std::shared_ptr<const graph::Graph> graph);

}  // namespace dynrun::lowering
