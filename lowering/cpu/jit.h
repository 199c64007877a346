#pragma once
// The process's one JIT: compiles kernels for the host, each by itself and several at once, keeps each by its text, in memory and
// on disk, never unloads.

#include "lowering/loops/loop.h"

#include <string>
#include <vector>

namespace dynrun::lowering::cpu {

/// buffers: the first element of each buffer; runs units [begin, end); arguments: those that the kernel's form names.
using KernelFunction = void (*)(void** buffers, std::int64_t begin, std::int64_t end, const std::int64_t* arguments);

/// What the host offers.
struct Target {
  unsigned vector_bits = 128;
  bool half_conversion = false;  // float16 <-> float32 in hardware
  unsigned float_lanes() const { return vector_bits / 32; }
};
const Target& host_target();
/// Whether the host computes with all the dtypes that a node takes and gives.
bool host_has_types(const graph::Graph& graph, const graph::Node& node);

/// How a kernel's iteration space is cut into units of work.
struct UnitShape {
  std::int64_t units = 1;
  std::int64_t blocks = 1;    // pieces of the innermost loop, for kernels without reductions
  std::int64_t elements = 0;  // of one unit, about
};
constexpr std::int64_t kBlock = 4096;  // elements of such a piece
UnitShape unit_shape(const Kernel& kernel, const Target& target);
constexpr std::int64_t kLongestKeptRow = 16384;  // elements
/// What decides how the code of a kernel is written, besides its text: the same for all that one function serves.
struct CodeShape {
  std::int64_t unroll = 1;      // copies of the inner loop's body
  bool keeps_values = false;    // a row is short enough for values to be kept from one pass to the next
  bool has_blocks = false;      // the innermost loop is cut into pieces
};
CodeShape code_shape(const Kernel& kernel, const Target& target);
/// As part of a key.
std::string print(const CodeShape& shape);

/// A kernel to be compiled.
struct Compilation {
  const Kernel* form;  // may name arguments
  CodeShape shape;
};

/// Units that are not worth a second thread.
std::int64_t grain_of(const Kernel& kernel, std::int64_t unit_elements);

using Dump = std::function<void(const std::string& stage, const std::string& text)>;
/// One function a kernel, in order; kernels of equal text share one, within the call and with earlier calls. `dump` gets the
/// texts of "llvm" and "asm" when set.
std::vector<KernelFunction> compile(const std::vector<Compilation>& kernels, const Dump& dump);

}  // namespace dynrun::lowering::cpu
