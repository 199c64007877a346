#pragma once
// Frames that CPython runs, where operators are counted. To look at each operator takes a few hundredths of a small one's time; a function
// that has run as many of them each time needs that no longer: what it ran before is taken for what it runs, and looked at again now and then.

#include "python/frame.h"

#include <cstdint>

namespace dynrun::engine {

/// Operators are counted on all threads from now on, or no longer.
void count_operators_of_all_threads(bool on = true);

/// This thread's code asks how many operators were counted: none of the functions that are running may be left uncounted.
void note_that_counts_are_read();
/// From now on each operator is counted.
void count_exactly();

/// How many of the operators counted were taken from earlier runs of their functions.
std::uint64_t assumed_operators();

}  // namespace dynrun::engine
