#pragma once
// Launching kernels, and taking down the launches that a CUDA graph captures.

#include "runtime/cuda/driver.h"
#include "runtime/step.h"

#include <vector>

namespace dynrun::runtime::cuda {

/// One launch of a generated kernel. Its parameters are the addresses of slots, then numbers.
struct Launch {
  CUfunction function = nullptr;
  unsigned blocks = 1, across = 1, behind = 1;  // the grid; threads of a block in x and y
  std::vector<SlotId> slots;
  std::vector<void*> pointers;
  std::vector<std::int64_t> arguments;
  bool aligned = false;  // it relies on pointers at multiples of 16 bytes
};

constexpr std::uintptr_t kAlignment = 16;  // bytes of the widest access

/// On the current stream of the current device.
void launch(const Launch& launch, int device);

/// The node that ends what a stream has captured: that of the launch just made. Throws c10::Error where there is no single one.
CUgraphNode last_captured(CUstream stream);

/// A launch as a node of a graph.
struct CapturedLaunch {
  CUgraphNode node = nullptr;
  Launch launch;
  /// Gives the node of `exec` the pointers that `launch` holds now.
  void update(CUgraphExec exec) const;
};

/// A copy of so many bytes between tensors of one device, as a node of a graph.
struct CapturedCopy {
  CUgraphNode node = nullptr;
  void* to = nullptr;
  const void* from = nullptr;
  std::size_t bytes = 0;
  /// Gives the node of `exec` the addresses that are here now.
  void update(CUgraphExec exec) const;
};

/// Copies on a stream that is capturing.
CapturedCopy capture_copy(void* to, const void* from, std::size_t bytes, CUstream stream);

/// While one lives, this thread's launches are taken down: the current stream has to be capturing.
class LaunchLog {
 public:
  LaunchLog();
  ~LaunchLog();
  LaunchLog(const LaunchLog&) = delete;
  LaunchLog& operator=(const LaunchLog&) = delete;
  std::vector<CapturedLaunch> launches;

 private:
  LaunchLog* before_;
};

}  // namespace dynrun::runtime::cuda
