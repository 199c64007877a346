#pragma once
// The stack that Python's main thread runs on: large and mapped as it is used, so that deep recursion ends as the recursion
// limit says. It is a mapping of our own rather than a raised RLIMIT_STACK, which child processes would inherit; and the main
// thread itself runs on it, so that signals, thread ids and `threading.main_thread()` are as under python.

#include <cstddef>

namespace dynrun::cli {

struct StackBounds {
  void* low = nullptr;   // both null when the process's own stack is used
  void* high = nullptr;
};

/// Calls `body(argument, bounds)` on a large stack and returns its result; on the present stack where none can be mapped.
int run_on_large_stack(int (*body)(void* argument, StackBounds bounds), void* argument);

}  // namespace dynrun::cli
