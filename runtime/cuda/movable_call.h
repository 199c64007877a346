#pragma once
// A library's call in a captured graph, whose result is written wherever a launch of the graph says.

#include "runtime/cuda/driver.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dynrun::runtime::cuda {

/// How kernels of a library come by an address is the library's secret. So the same call is captured three times in a row, for results at
/// three addresses: parameters that the first two differ in by as much as their addresses do hold the address, which the third has to
/// confirm. What else differs cannot be told.
class MovableCall {
 public:
  static constexpr std::size_t kCaptures = 3;
  /// Where no memory need be, as nothing runs while it is captured.
  static constexpr std::array<std::uint64_t, kCaptures> kAddresses = {0x1000'0000'0200, 0x1123'4567'8600, 0x1abc'def1'2a00};
  static constexpr std::uint64_t kAlignment = 512;  // of these, as of all that the allocator gives

  /// `ends`: the graph's last node before the calls, and the last of each call. The graph keeps the first call alone. Throws
  /// std::runtime_error where its kernels cannot be moved; the graph is of no use then.
  explicit MovableCall(const std::array<CUgraphNode, kCaptures + 1>& ends);

  /// Has the next launches of `exec` write at another address. Throws c10::Error where the driver refuses.
  void move(CUgraphExec exec, std::uint64_t to);

 private:
  struct Place {
    std::size_t parameter, byte;
    std::uint64_t offset;  // from the result's address
  };
  struct Kernel {
    CUgraphNode node = nullptr;
    CUDA_KERNEL_NODE_PARAMS launch{};
    std::vector<std::vector<std::byte>> parameters;
    bool as_one = false;  // all of them one after the other in memory
    std::vector<Place> places;
    void update(CUgraphExec exec);
  };
  static Kernel read(CUgraphNode node);
  static void find_places(Kernel& kernel, const std::array<Kernel, kCaptures>& captured);

  std::vector<Kernel> kernels_;  // that write the result
  std::uint64_t at_ = kAddresses[0];
};

}  // namespace dynrun::runtime::cuda
