#include "runtime/threads.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>
#include <vector>

namespace dynrun::runtime {
namespace {

/// Signals are for the threads of the program.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

void in_threads(std::size_t count, std::size_t threads, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr error;
  auto work = [&] {
    for (std::size_t at = next++; at < count; at = next++) {
      try {
        body(at);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!error) error = std::current_exception();
      }
    }
  };
  std::vector<std::thread> helpers;
  {
    const NoSignals inherited;
    try {
      for (std::size_t i = 1; i < std::min(count, threads); ++i) helpers.emplace_back(work);
    } catch (const std::system_error&) {
      // No more threads to be had: those that there are do it.
    }
  }
  work();
  for (std::thread& helper : helpers) helper.join();
  if (error) std::rethrow_exception(error);
}

void in_threads(const std::vector<std::size_t>& costs, std::size_t threads, const std::function<void(std::size_t)>& body) {
  std::vector<std::size_t> order(costs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return costs[a] > costs[b]; });
  in_threads(order.size(), threads, [&](std::size_t i) { body(order[i]); });
}

}  // namespace dynrun::runtime
