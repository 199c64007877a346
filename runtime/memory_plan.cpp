#include "runtime/plan.h"

#include <numeric>

namespace dynrun::runtime {
namespace {

constexpr std::int64_t kAlignment = 64;

}  // namespace

std::int64_t plan_memory(std::vector<BufferLife>& buffers) {
  std::vector<std::size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<std::size_t> placed;  // by offset
  std::int64_t total = 0;
  for (std::size_t next : order) {
    BufferLife& buffer = buffers[next];
    std::int64_t size = (buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
    std::int64_t offset = 0, best = -1, best_gap = 0;
    for (std::size_t other_index : placed) {
      const BufferLife& other = buffers[other_index];
      if (other.last < buffer.first || buffer.last < other.first) continue;
      std::int64_t gap = other.offset - offset;
      if (gap >= size && (best < 0 || gap < best_gap)) {
        best = offset;
        best_gap = gap;
      }
      std::int64_t end = other.offset + (other.bytes + kAlignment - 1) / kAlignment * kAlignment;
      offset = std::max(offset, end);
    }
    buffer.offset = best >= 0 ? best : offset;
    total = std::max(total, buffer.offset + size);
    auto position = std::upper_bound(placed.begin(), placed.end(), next,
                                     [&](std::size_t a, std::size_t b) { return buffers[a].offset < buffers[b].offset; });
    placed.insert(position, next);
  }
  return total;
}

}  // namespace dynrun::runtime
