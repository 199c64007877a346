#include "runtime/cuda/measure.h"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

namespace dynrun::runtime::cuda {
namespace {

constexpr int kRunsBefore = 3;  // libraries choose their kernels, a graph is captured
constexpr int kRuns = 4, kRounds = 3;  // the fastest round counts: in others the host may have fallen behind
constexpr double kLong = 0.005;  // seconds: then two runs tell enough

double seconds_of_runs(Executable& executable, c10::ArrayRef<at::Tensor> inputs, int runs, const c10::cuda::CUDAStream& stream) {
  at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  begin.record(stream);
  for (int i = 0; i < runs; ++i) executable.run(inputs);
  end.record(stream);
  end.synchronize();
  return begin.elapsed_time(end) / 1000 / runs;
}

}  // namespace

bool can_measure() { return c10::cuda::currentStreamCaptureStatusMayInitCtx() == c10::cuda::CaptureStatus::None; }

double seconds_of(Executable& executable, c10::ArrayRef<at::Tensor> inputs, int device) {
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  executable.run(inputs);
  const double once = seconds_of_runs(executable, inputs, 1, stream);
  if (once > kLong) return std::min(once, seconds_of_runs(executable, inputs, 1, stream));
  for (int i = 2; i < kRunsBefore; ++i) executable.run(inputs);
  double best = once;
  for (int i = 0; i < kRounds; ++i) best = std::min(best, seconds_of_runs(executable, inputs, kRuns, stream));
  return best;
}

double seconds_of_work(const std::function<void(int turn)>& work, int turns, int device) {
  constexpr std::int64_t kCyclesPerTurn = 20000;  // of waiting, while the host launches: a gap between launches is no work
  const c10::cuda::CUDAGuard guard(static_cast<c10::DeviceIndex>(device));
  const c10::cuda::CUDAStream stream = c10::cuda::getCurrentCUDAStream();
  at::cuda::CUDAEvent begin(cudaEventDefault), end(cudaEventDefault);
  work(0);
  at::cuda::sleep(kCyclesPerTurn * turns);
  begin.record(stream);
  for (int turn = 1; turn <= turns; ++turn) work(turn);
  end.record(stream);
  end.synchronize();
  return begin.elapsed_time(end) / 1000 / turns;
}

std::string name_of(int device) { return at::cuda::getDeviceProperties(static_cast<c10::DeviceIndex>(device))->name; }

}  // namespace dynrun::runtime::cuda
