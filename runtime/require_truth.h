#pragma once
// dynrun::require_truth(Tensor of, bool truth, int place): raises in a replay where a tensor's truth is not the one that was recorded.

#include <cstdint>

namespace dynrun::runtime {

/// Whether it has raised for that place too often to record it there again. Any thread.
bool is_refuted(std::int64_t place);
/// How often it has raised for places of which that is so: another segment may assume the same.
std::uint64_t refuted_again();

}  // namespace dynrun::runtime
