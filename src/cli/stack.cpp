#include "cli/stack.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

namespace dynrun::cli {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

// The sanitizers know the stacks that threads were given, and no others.
int run_on_large_stack(int (*body)(void*, StackBounds), void* argument) { return body(argument, {}); }

#else

namespace {

constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::size_t kSizes[] = {4096 * kMebibyte, 1024 * kMebibyte, 256 * kMebibyte, 64 * kMebibyte};
constexpr std::size_t kGuardSize = kMebibyte;

struct Run {
  int (*body)(void*, StackBounds);
  void* argument;
  StackBounds bounds;
  int result = 0;
};

// makecontext passes ints only.
Run* current_run = nullptr;

void enter() { current_run->result = current_run->body(current_run->argument, current_run->bounds); }

}  // namespace

int run_on_large_stack(int (*body)(void*, StackBounds), void* argument) {
  Run run{body, argument, {}, 0};
  for (const std::size_t size : kSizes) {
    void* low = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (low == MAP_FAILED) continue;
    // Huge pages would make the first touch of a stack cost megabytes.
    madvise(low, size, MADV_NOHUGEPAGE);
    mprotect(low, kGuardSize, PROT_NONE);
    run.bounds = {static_cast<char*>(low) + kGuardSize, static_cast<char*>(low) + size};
    ucontext_t back;
    ucontext_t there;
    if (getcontext(&there) != 0) break;
    there.uc_stack.ss_sp = low;
    there.uc_stack.ss_size = size;
    there.uc_link = &back;
    current_run = &run;
    makecontext(&there, enter, 0);
    if (swapcontext(&back, &there) != 0) break;
    return run.result;
  }
  return body(argument, {});
}

#endif

}  // namespace dynrun::cli
