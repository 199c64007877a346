#pragma once
// What is known of two host values beside each other: `i + 4` is four more than `i`, whatever `i` is.

#include "trace/host.h"

#include <optional>

namespace dynrun::trace {

/// `a - b` where it is the same number on each replay. Both are of type int.
std::optional<std::int64_t> constant_difference(const HostProgram& host, HostId a, HostId b);

}  // namespace dynrun::trace
