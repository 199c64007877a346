#include "runtime/cuda/movable_call.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace dynrun::runtime::cuda {
namespace {

constexpr std::size_t kMostNodes = 32;  // of one call
constexpr std::size_t kWord = sizeof(std::uint64_t);

[[noreturn]] void refuse(const char* why) { throw std::runtime_error(std::string("a library's call cannot be moved: ") + why); }

/// The nodes behind `before` up to `last`, a chain.
std::vector<CUgraphNode> chain(CUgraphNode before, CUgraphNode last) {
  std::vector<CUgraphNode> nodes;
  for (CUgraphNode node = last; node != before;) {
    if (nodes.size() == kMostNodes) refuse("it is many kernels");
    nodes.insert(nodes.begin(), node);
    std::size_t count = 0;
    if (cudaGraphNodeGetDependencies(node, nullptr, nullptr, &count) != cudaSuccess || count != 1) refuse("its kernels are no chain");
    cudaGraphEdgeData edge{};
    CUgraphNode earlier = nullptr;
    if (cudaGraphNodeGetDependencies(node, &earlier, &edge, &count) != cudaSuccess) refuse("its kernels are no chain");
    node = earlier;
  }
  return nodes;
}

bool is_same_launch(const CUDA_KERNEL_NODE_PARAMS& a, const CUDA_KERNEL_NODE_PARAMS& b) {
  return a.func == b.func && a.kern == b.kern && a.gridDimX == b.gridDimX && a.gridDimY == b.gridDimY && a.gridDimZ == b.gridDimZ && a.blockDimX == b.blockDimX &&
         a.blockDimY == b.blockDimY && a.blockDimZ == b.blockDimZ && a.sharedMemBytes == b.sharedMemBytes;
}

bool is_memset(CUgraphNode node) {
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  return cudaGraphNodeGetType(node, &type) == cudaSuccess && type == cudaGraphNodeTypeMemset;
}

/// Of memory that the calls share, before a product that is split.
bool is_same_memset(CUgraphNode first, CUgraphNode second) {
  cudaMemsetParams a{}, b{};
  if (!is_memset(first) || !is_memset(second) || cudaGraphMemsetNodeGetParams(first, &a) != cudaSuccess || cudaGraphMemsetNodeGetParams(second, &b) != cudaSuccess) return false;
  return a.dst == b.dst && a.value == b.value && a.elementSize == b.elementSize && a.width == b.width && a.height == b.height && a.pitch == b.pitch;
}

std::uint64_t word_at(const std::vector<std::byte>& bytes, std::size_t at) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data() + at, std::min(kWord, bytes.size() - at));
  return word;
}

/// The parameters of a launch that was given them as one piece of memory.
std::vector<std::byte> buffer_of(void** extra) {
  const std::byte* bytes = nullptr;
  std::size_t size = 0;
  for (std::size_t i = 0; extra != nullptr && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER) bytes = static_cast<const std::byte*>(extra[i + 1]);
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE) size = *static_cast<const std::size_t*>(extra[i + 1]);
  }
  if (bytes == nullptr || size == 0) refuse("the driver does not tell its parameters");
  return {bytes, bytes + size};
}

}  // namespace

MovableCall::Kernel MovableCall::read(CUgraphNode node) {
  const Driver& driver = Driver::instance();
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  if (cudaGraphNodeGetType(node, &type) != cudaSuccess || type != cudaGraphNodeTypeKernel) refuse("not all of it is kernels");
  Kernel kernel;
  kernel.node = node;
  if (driver.node_launch(node, &kernel.launch) != CUDA_SUCCESS) refuse("the driver does not tell its parameters");
  if (kernel.launch.kernelParams == nullptr) {
    kernel.as_one = true;
    kernel.parameters.push_back(buffer_of(kernel.launch.extra));
    return kernel;
  }
  if (driver.function_parameter == nullptr || driver.kernel_parameter == nullptr) refuse("the driver is too old");
  for (std::size_t i = 0;; i++) {
    std::size_t offset = 0, size = 0;
    const CUresult told = kernel.launch.func != nullptr ? driver.function_parameter(kernel.launch.func, i, &offset, &size) : driver.kernel_parameter(kernel.launch.kern, i, &offset, &size);
    if (told == CUDA_ERROR_INVALID_VALUE && i > 0) break;  // no more of them
    if (told != CUDA_SUCCESS) refuse("the driver does not tell how large its parameters are");
    const auto* bytes = static_cast<const std::byte*>(kernel.launch.kernelParams[i]);
    kernel.parameters.emplace_back(bytes, bytes + size);
  }
  return kernel;
}

/// Of `kernel`, the first of those captured.
void MovableCall::find_places(Kernel& kernel, const std::array<Kernel, kCaptures>& captured) {
  for (std::size_t i = 0; i < kernel.parameters.size(); i++) {
    for (const Kernel& other : captured) {
      if (other.parameters.size() != kernel.parameters.size() || other.parameters[i].size() != kernel.parameters[i].size()) refuse("it is another one each time");
    }
    for (std::size_t at = 0; at < kernel.parameters[i].size(); at += kWord) {
      const std::uint64_t first = word_at(kernel.parameters[i], at), offset = first - kAddresses[0];
      bool same = true, moved = at + kWord <= kernel.parameters[i].size();
      for (std::size_t k = 1; k < kCaptures; k++) {
        const std::uint64_t word = word_at(captured[k].parameters[i], at);
        same = same && word == first;
        moved = moved && word == kAddresses[k] + offset;
      }
      if (same) continue;
      if (!moved) refuse("a parameter follows from the address in another way");
      kernel.places.push_back({i, at, offset});
    }
  }
}

MovableCall::MovableCall(const std::array<CUgraphNode, kCaptures + 1>& ends) {
  std::array<std::vector<CUgraphNode>, kCaptures> calls;
  for (std::size_t k = 0; k < kCaptures; k++) {
    calls[k] = chain(ends[k], ends[k + 1]);
    if (calls[k].empty() || calls[k].size() != calls[0].size()) refuse("it is another one each time");
  }
  for (std::size_t i = 0; i < calls[0].size(); i++) {
    const bool fills = is_memset(calls[0][i]);
    if (fills && !(is_same_memset(calls[0][i], calls[1][i]) && is_same_memset(calls[0][i], calls[2][i]))) refuse("it fills the result");
    if (fills) continue;
    std::array<Kernel, kCaptures> captured;
    for (std::size_t k = 0; k < kCaptures; k++) {
      captured[k] = read(calls[k][i]);
      if (!is_same_launch(captured[k].launch, captured[0].launch)) refuse("it is another one each time");
    }
    Kernel kernel = captured[0];
    find_places(kernel, captured);
    if (!kernel.places.empty()) kernels_.push_back(std::move(kernel));
  }
  if (kernels_.empty()) refuse("its result's address is not found");
  for (std::size_t k = kCaptures; k-- > 1;) {
    for (CUgraphNode node : calls[k]) {
      if (cudaGraphDestroyNode(node) != cudaSuccess) refuse("a node stays");
    }
  }
}

void MovableCall::move(CUgraphExec exec, std::uint64_t to) {
  if (to == at_) return;
  at_ = 0;  // the driver may refuse one of several
  for (Kernel& kernel : kernels_) {
    for (const Place& place : kernel.places) {
      const std::uint64_t word = to + place.offset;
      std::memcpy(kernel.parameters[place.parameter].data() + place.byte, &word, kWord);
    }
    kernel.update(exec);
  }
  at_ = to;
}

void MovableCall::Kernel::update(CUgraphExec exec) {
  std::vector<void*> pointers;
  for (std::vector<std::byte>& parameter : parameters) pointers.push_back(parameter.data());
  std::size_t size = parameters[0].size();
  void* whole[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, pointers[0], CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
  launch.kernelParams = as_one ? nullptr : pointers.data();
  launch.extra = as_one ? whole : nullptr;
  check(Driver::instance().update_node(exec, node, &launch), "moving the result of a captured call");
}

}  // namespace dynrun::runtime::cuda
