#pragma once
// How a kernel's work is shared among the threads of a GPU.

#include "lowering/loops/loop.h"

namespace dynrun::lowering::gpu {

enum class Form : std::uint8_t {
  kFlat,   // no reduction: a thread computes one vector of elements
  kTiles,  // no reduction: threads side by side have elements side by side; threads behind each other are side by side along `across`
  kWarp,   // a row is a warp's
  kBlock,  // a row is a block's
  kLanes,  // threads side by side have rows side by side; threads behind each other share a row
};

constexpr std::int64_t kWarpThreads = 32;

/// What decides how the code of a kernel is written, besides its text.
struct CodeShape {
  Form form = Form::kFlat;
  std::int64_t threads = 256;  // of a block
  std::int64_t lanes = kWarpThreads;  // kTiles, kLanes: threads side by side
  std::int64_t across = -1;    // kTiles: the loop along which some loads lie
  std::int64_t vector = 1;     // elements that a thread takes at once along the innermost loop
  std::int64_t tile = 1;       // kFlat: turns of the loop around that one which a thread takes; kTiles: tiles
  std::int64_t kept = 0;       // vectors of its row that a thread keeps in registers from pass to pass; 0: each pass is a loop
  bool wide = false;           // indices need 64 bits
};
/// `vectors`: whether the buffers begin at multiples of 16 bytes.
CodeShape code_shape(const Kernel& kernel, bool vectors);
/// Whether an access of all elements lies in memory along the loop that threads behind each other share. A block reads and writes it in
/// memory's order then, and its threads exchange the numbers.
bool lies_across(const Kernel& kernel, const CodeShape& shape, const Access& access);
/// "flat", "tiles", "warp", "block" or "lanes".
const char* name_of(Form form);
/// As part of a key.
std::string print(const CodeShape& shape);

/// How many threads of a block stand behind each other; 1 where they are only side by side.
std::int64_t threads_behind(const CodeShape& shape);
/// How many threads share a row.
std::int64_t threads_of_row(const CodeShape& shape);
/// How many blocks a launch has.
std::int64_t blocks_of(const Kernel& kernel, const CodeShape& shape);

}  // namespace dynrun::lowering::gpu
