#pragma once
// Work for threads that live no longer than the work. Compiling must not start the pool of libtorch: a process that forks later,
// and never needed the pool, could not use it in the child.

#include <cstddef>
#include <functional>
#include <vector>

namespace dynrun::runtime {

/// Runs body(0) to body(count - 1) on at most `threads` threads, this one among them. The first exception is thrown here, after all have ended.
void in_threads(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& body);

/// As above, for as many indices as there are `costs`, in any unit: begins with the highest, so that none is waited for at the end.
void in_threads(const std::vector<std::size_t>& costs, std::size_t threads, const std::function<void(std::size_t)>& body);

}  // namespace dynrun::runtime
