// libtorch's at::parallel_for is inline and needs OpenMP at compile time. This asks for the same, by hand, of the OpenMP
// runtime that libtorch itself runs on: there is one pool of threads, sized by torch.set_num_threads.

#include "runtime/plan.h"

#include <ATen/Parallel.h>

#include <exception>

extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags);
int omp_get_num_threads();
int omp_get_thread_num();
int omp_in_parallel();
}

namespace dynrun::runtime {
namespace {

struct Job {
  const std::function<void(std::int64_t, std::int64_t)>* body;
  std::int64_t count;
  std::int64_t grain;
  std::atomic_flag failed = ATOMIC_FLAG_INIT;
  std::exception_ptr error;
};

void run_share(void* data) {
  Job& job = *static_cast<Job*>(data);
  std::int64_t threads = omp_get_num_threads();
  std::int64_t share = (job.count + threads - 1) / threads;
  std::int64_t begin = omp_get_thread_num() * share;
  if (begin >= job.count) return;
  try {
    at::internal::ThreadIdGuard id(static_cast<int>(omp_get_thread_num()));
    c10::ParallelGuard guard(true);
    (*job.body)(begin, std::min(job.count, begin + share));
  } catch (...) {
    if (!job.failed.test_and_set()) job.error = std::current_exception();
  }
}

}  // namespace

void parallel_for(std::int64_t count, std::int64_t grain, const std::function<void(std::int64_t, std::int64_t)>& body) {
  if (count <= 0) return;
  at::internal::lazy_init_num_threads();
  std::int64_t threads = at::get_num_threads();
  if (grain > 0) threads = std::min(threads, (count + grain - 1) / grain);
  if (threads <= 1 || at::in_parallel_region() || omp_in_parallel()) {
    body(0, count);
    return;
  }
  Job job{&body, count, grain, ATOMIC_FLAG_INIT, nullptr};
  GOMP_parallel(run_share, &job, static_cast<unsigned>(threads), 0);
  if (job.error) std::rethrow_exception(job.error);
}

}  // namespace dynrun::runtime
