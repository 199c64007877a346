#include "lowering/gpu/launch.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <limits>

namespace dynrun::lowering::gpu {
namespace {

constexpr std::int64_t kAccessBytes = 16;   // of one load or store instruction, at most
constexpr std::int64_t kFloatVector = 4;    // elements of float32 in one access
constexpr std::int64_t kKeptElements = 32;  // of a row in one thread's registers
constexpr std::int64_t kLongWarpRow = 1024, kLongFloatRow = 512;
constexpr std::int64_t kFewThreads = 132 * 512;  // with fewer a large GPU is idle in part: smaller vectors make more of them

template <typename Visit>
void visit_accesses(const Kernel& kernel, const Visit& visit) {
  for (const LoopOp& op : kernel.ops) {
    if (op.kind == ExpressionKind::kLoad) visit(op.access);
  }
  for (const LoopStore& store : kernel.stores) visit(store.access);
}

bool is_aligned(const Access& access, std::int64_t elements) {
  if (access.offset % elements != 0) return false;
  for (std::size_t i = 0; i + 1 < access.strides.size(); ++i) {
    if (access.strides[i] % elements != 0) return false;
  }
  return true;
}

/// The longest vector that all accesses along memory allow.
std::int64_t vector_of(const Kernel& kernel) {
  std::int64_t smallest = kAccessBytes;
  visit_accesses(kernel, [&](const Access& access) {
    if (access.strides.back() != 1) return;
    smallest = std::min<std::int64_t>(smallest, static_cast<std::int64_t>(c10::elementSize(kernel.buffers[static_cast<std::size_t>(access.buffer)].dtype)));
  });
  if (smallest == kAccessBytes) return 1;
  std::int64_t vector = std::min<std::int64_t>(8, kAccessBytes / smallest);
  auto fits = [&] {
    bool aligned = kernel.dims.back() % vector == 0;
    visit_accesses(kernel, [&](const Access& access) { aligned = aligned && (access.strides.back() != 1 || is_aligned(access, vector)); });
    return aligned;
  };
  while (vector > 1 && !fits()) vector /= 2;
  return vector;
}

/// Whether two places of a window read the same elements some turns of the loop apart.
bool overlap(const Access& a, const Access& b, std::size_t loop) {
  constexpr std::int64_t kNear = 8;  // turns
  const std::int64_t step = a.strides[loop], apart = b.offset - a.offset;
  return a.buffer == b.buffer && a.strides == b.strides && step != 0 && apart != 0 && apart % step == 0 && std::abs(apart / step) < kNear;
}

/// What a thread reads for one turn of the loop around the innermost one and needs again for the next turn.
enum class Shared : std::uint8_t { kNothing, kColumns, kWindows };  // numbers of a column; windows that overlap

Shared shared_reads(const Kernel& kernel) {
  constexpr std::size_t kManyOps = 256;  // their values would not stay in registers
  if (kernel.dims.size() < 2 || kernel.ops.size() > kManyOps) return Shared::kNothing;
  const std::size_t loop = kernel.dims.size() - 2;
  std::vector<const Access*> loads;
  for (const LoopOp& op : kernel.ops) {
    if (op.kind == ExpressionKind::kLoad && op.access.strides.back() != 0) loads.push_back(&op.access);
  }
  auto any = [&](const auto& holds) { return std::any_of(loads.begin(), loads.end(), holds); };
  if (any([&](const Access* a) { return any([&](const Access* b) { return overlap(*a, *b, loop); }); })) return Shared::kWindows;
  return any([&](const Access* load) { return load->strides[loop] == 0; }) ? Shared::kColumns : Shared::kNothing;
}

/// The largest number of turns up to `most` that the loop around the innermost one consists of.
std::int64_t tile_of(const Kernel& kernel, std::int64_t most) {
  const std::int64_t turns = kernel.dims[kernel.dims.size() - 2];
  while (most > 1 && turns % most != 0) --most;
  return most;
}

/// As many elements for each thread as its registers hold the sums of and leave the device busy.
void tile_windows(std::int64_t elements, const Kernel& kernel, CodeShape& shape) {
  constexpr std::int64_t kMostElements = 32, kMostTurns = 8, kFewBusyThreads = kFewThreads / 2;
  CodeShape best = shape;
  std::int64_t most = 0;
  for (std::int64_t vector = shape.vector; vector > 1; vector /= 2) {
    const std::int64_t tile = tile_of(kernel, std::min(kMostTurns, kMostElements / vector));
    if (vector * tile <= most || elements / (vector * tile) < kFewBusyThreads) continue;
    most = vector * tile;
    best.vector = vector, best.tile = tile;
  }
  if (most > 0 && best.tile > 1) shape = best;
}

bool is_written(const Kernel& kernel, const Access& access) { return kernel.buffers[static_cast<std::size_t>(access.buffer)].written; }

/// The loop along which loads lie that do not lie along the innermost one; -1: there is none, or it is too short to fill a tile.
std::int64_t loop_across(const Kernel& kernel) {
  constexpr std::int64_t kShort = 24, kMostLoads = 4;
  const std::size_t last = kernel.dims.size() - 1;
  if (kernel.dims[last] < kShort) return -1;
  std::int64_t found = -1, loads = 0;
  for (const LoopOp& op : kernel.ops) {
    if (op.kind != ExpressionKind::kLoad || !op.arguments.empty() || op.access.strides[last] <= 1 || is_written(kernel, op.access)) continue;
    for (std::size_t loop = 0; loop < last; ++loop) {
      if (op.access.strides[loop] != 1 || kernel.dims[loop] < kShort || (found >= 0 && found != static_cast<std::int64_t>(loop))) continue;
      found = static_cast<std::int64_t>(loop);
      ++loads;
    }
  }
  return loads <= kMostLoads ? found : -1;
}

}  // namespace

bool lies_across(const Kernel& kernel, const CodeShape& shape, const Access& access) {
  const std::int64_t inner = access.strides.back();
  if (shape.form == Form::kTiles) return inner > 1 && access.strides[static_cast<std::size_t>(shape.across)] == 1;
  return shape.form == Form::kLanes && shape.kept > 0 && kernel.outer > 0 && inner == 1 && access.strides[static_cast<std::size_t>(kernel.outer) - 1] > 1;
}

namespace {

/// A read along another loop than the innermost moves a sector for each element: through shared memory it moves what it reads.
bool shape_tiles(const Kernel& kernel, CodeShape& shape) {
  constexpr std::int64_t kWorth = std::int64_t{1} << 18, kMostTiles = 4, kBusyBlocks = 264;
  const std::int64_t elements = kernel.rows() * kernel.row_elements();
  const std::int64_t loop = elements >= kWorth ? loop_across(kernel) : -1;
  if (loop < 0) return false;
  shape.form = Form::kTiles;
  shape.vector = 1, shape.across = loop;
  shape.threads = shape.lanes * kWarpThreads;
  auto grows = [&] { return shape.tile < kMostTiles && kernel.dims[static_cast<std::size_t>(loop)] > shape.tile * kWarpThreads && elements / (2 * shape.tile * shape.threads) >= kBusyBlocks; };
  while (grows()) shape.tile *= 2;
  return true;
}

void shape_flat(const Kernel& kernel, CodeShape& shape) {
  if (shape_tiles(kernel, shape)) return;
  constexpr std::int64_t kMostTurns = 8;
  const std::int64_t elements = kernel.rows() * kernel.row_elements();
  const Shared shared = shared_reads(kernel);
  if (shared == Shared::kWindows) tile_windows(elements, kernel, shape);
  if (shape.tile > 1) return;
  while (shape.vector > 1 && elements / shape.vector < kFewThreads) shape.vector /= 2;
  if (shared == Shared::kColumns && shape.vector > 1) shape.tile = tile_of(kernel, std::min(kMostTurns, elements / shape.vector / kFewThreads));
}

bool needs_wide_indices(const Kernel& kernel) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  std::int64_t elements = 1;
  for (std::int64_t size : kernel.dims) elements *= size;
  bool wide = elements > kMost;
  // Offsets below zero come last: what they are added to has to fit too.
  visit_accesses(kernel, [&](const Access& access) {
    std::int64_t last = std::max<std::int64_t>(access.offset, 0);
    for (std::size_t i = 0; i < kernel.dims.size(); ++i) last += (kernel.dims[i] - 1) * std::abs(access.strides[i]);
    wide = wide || last > kMost || access.offset < -kMost;
  });
  return wide;
}

constexpr std::int64_t kManyLoads = 224;  // in one thread's code

std::int64_t loads_of(const Kernel& kernel) {
  return std::count_if(kernel.ops.begin(), kernel.ops.end(), [](const LoopOp& op) { return op.kind == ExpressionKind::kLoad; });
}

/// Whether the code for what one thread of a warp has of a row is long, as where windows are read for each element: it takes long to
/// compile, and a warp is few threads for that much work.
bool is_much_for_a_warp(const Kernel& kernel, std::int64_t row) {
  return loads_of(kernel) * ((row + kWarpThreads - 1) / kWarpThreads) > kManyLoads;
}

void shape_rows(const Kernel& kernel, CodeShape& shape) {
  const std::int64_t row = kernel.row_elements();
  if (row <= kLongWarpRow && is_much_for_a_warp(kernel, row)) {
    shape.form = Form::kBlock;
    shape.threads = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(row / shape.vector))), 2 * kWarpThreads, 256);
  } else if (row >= kLongFloatRow && row <= kLongWarpRow && shape.vector == kFloatVector) {  // two warps have more loads on their way than one, and a half type's row is not long enough for them
    shape.form = Form::kBlock;
    shape.threads = 2 * kWarpThreads;
  } else if (row <= kLongWarpRow) {
    shape.form = Form::kWarp;
    shape.threads = 128;
    while (shape.vector > 1 && row < kWarpThreads * shape.vector) shape.vector /= 2;
  } else {
    shape.form = Form::kBlock;
    const auto needed = static_cast<std::uint64_t>((row + 8 - 1) / 8);
    shape.threads = std::clamp<std::int64_t>(static_cast<std::int64_t>(std::bit_ceil(needed)), 128, 1024);
  }
  const std::int64_t piece = threads_of_row(shape) * shape.vector, pieces = (row + piece - 1) / piece;
  if (pieces * shape.vector <= kKeptElements) shape.kept = pieces;
}

/// Rows that lie across memory: as many side by side as keep the device busy, and behind each other as many threads as a row feeds. Reads
/// are of whole sectors of memory as long as eight rows lie side by side.
void shape_lanes(const Kernel& kernel, CodeShape& shape) {
  constexpr std::int64_t kFewestLanes = 8, kMostThreads = 1024, kBusyBlocks = 132, kElements = 8, kMostKept = 16, kFewElements = 2;
  const std::int64_t rows = kernel.rows(), row = kernel.row_elements();
  shape.form = Form::kLanes;
  while (shape.lanes > kFewestLanes && (rows < kBusyBlocks * shape.lanes || row > kMostKept * kMostThreads / shape.lanes)) shape.lanes /= 2;
  const std::int64_t most = kMostThreads / shape.lanes;
  std::int64_t behind = kWarpThreads / shape.lanes;
  auto grows = [&](std::int64_t elements) { return behind < most && row >= 2 * behind * elements; };
  while (grows(kElements) || (rows * behind < kFewThreads && grows(kFewElements))) behind *= 2;
  shape.threads = shape.lanes * behind;
  const std::int64_t kept = (row + behind - 1) / behind;
  if (kept <= kMostKept && loads_of(kernel) * kept <= kManyLoads) shape.kept = kept;
}

/// Whether what is stored along the rows is read across them.
bool reads_along_rows(const Kernel& kernel) {
  constexpr std::int64_t kShort = 24, kWorth = std::int64_t{1} << 16;
  if (!kernel.has_reduction() || kernel.outer == 0) return false;
  const auto rows = static_cast<std::size_t>(kernel.outer) - 1;
  if (kernel.dims[rows] < kShort || kernel.rows() * kernel.row_elements() < kWorth) return false;
  return std::any_of(kernel.ops.begin(), kernel.ops.end(), [&](const LoopOp& op) {
    return op.kind == ExpressionKind::kLoad && op.inner && op.arguments.empty() && op.access.strides[rows] == 1 && op.access.strides.back() > 1;
  });
}

}  // namespace

CodeShape code_shape(const Kernel& kernel, bool vectors) {
  CodeShape shape;
  shape.wide = needs_wide_indices(kernel);
  if (kernel.vector_rows) {
    shape_lanes(kernel, shape);
    return shape;
  }
  if (reads_along_rows(kernel)) {
    CodeShape lanes = shape;
    shape_lanes(kernel, lanes);
    if (lanes.kept > 0) return lanes;
  }
  if (vectors) shape.vector = vector_of(kernel);
  if (kernel.has_reduction()) {
    shape_rows(kernel, shape);
    return shape;
  }
  shape_flat(kernel, shape);
  return shape;
}

const char* name_of(Form form) {
  constexpr const char* kNames[] = {"flat", "tiles", "warp", "block", "lanes"};
  return kNames[static_cast<int>(form)];
}

std::string print(const CodeShape& shape) {
  const std::string tile = shape.tile > 1 ? fmt::format(" tile {}", shape.tile) : "";
  const std::string lanes = shape.form == Form::kLanes ? fmt::format(" {} by", shape.lanes) : shape.form == Form::kTiles ? fmt::format(" across {}", shape.across) : "";
  return fmt::format("{}{} threads {} vector {}{} kept {}{}\n", name_of(shape.form), lanes, shape.threads, shape.vector, tile, shape.kept, shape.wide ? " wide" : "");
}

std::int64_t threads_behind(const CodeShape& shape) {
  return shape.form == Form::kTiles || shape.form == Form::kLanes ? shape.threads / shape.lanes : 1;
}

std::int64_t threads_of_row(const CodeShape& shape) {
  switch (shape.form) {
    case Form::kFlat:
    case Form::kTiles:
      return 1;
    case Form::kWarp:
      return kWarpThreads;
    case Form::kBlock:
      return shape.threads;
    case Form::kLanes:
      return threads_behind(shape);
  }
  return 1;
}

std::int64_t blocks_of(const Kernel& kernel, const CodeShape& shape) {
  std::int64_t work = kernel.rows(), each = 1;
  switch (shape.form) {
    case Form::kFlat:
      work = kernel.rows() * kernel.row_elements() / shape.vector / shape.tile;
      each = shape.threads;
      break;
    case Form::kTiles: {
      const std::int64_t inner = kernel.dims.back(), across = kernel.dims[static_cast<std::size_t>(shape.across)], step = shape.tile * threads_behind(shape);
      return work * kernel.row_elements() / inner / across * ((inner + shape.lanes - 1) / shape.lanes) * ((across + step - 1) / step);
    }
    case Form::kWarp:
      each = shape.threads / kWarpThreads;
      break;
    case Form::kBlock:
      break;
    case Form::kLanes:
      each = shape.lanes;
      break;
  }
  return (work + each - 1) / each;
}

}  // namespace dynrun::lowering::gpu
