#include "runtime/cuda/launch.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

namespace dynrun::runtime::cuda {
namespace {

thread_local LaunchLog* log_of_thread = nullptr;

/// Where each parameter's value is, as the driver reads it.
std::vector<void*> parameters_of(const Launch& launch) {
  std::vector<void*> parameters;
  parameters.reserve(launch.pointers.size() + launch.arguments.size());
  for (void* const& pointer : launch.pointers) parameters.push_back(const_cast<void**>(&pointer));
  for (const std::int64_t& argument : launch.arguments) parameters.push_back(const_cast<std::int64_t*>(&argument));
  return parameters;
}

}  // namespace

CUgraphNode last_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  const CUgraphNode* nodes = nullptr;
  std::size_t count = 0;
  check(Driver::instance().capture_info(stream, &status, nullptr, nullptr, &nodes, nullptr, &count), "asking for a captured launch");
  TORCH_CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && count == 1, "a launch was not captured");
  return nodes[0];
}

void launch(const Launch& launch, int device) {
  std::vector<void*> parameters = parameters_of(launch);
  const c10::Device on(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(device));
  auto* stream = static_cast<CUstream>(c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA).getStream(on).native_handle());
  check(Driver::instance().launch(launch.function, launch.blocks, 1, 1, launch.across, launch.behind, 1, 0, stream, parameters.data(), nullptr), "launching a kernel");
  if (log_of_thread != nullptr) log_of_thread->launches.push_back({last_captured(stream), launch});
}

void CapturedLaunch::update(CUgraphExec exec) const {
  std::vector<void*> parameters = parameters_of(launch);
  CUDA_KERNEL_NODE_PARAMS node_parameters{};
  node_parameters.func = launch.function;
  node_parameters.gridDimX = launch.blocks;
  node_parameters.gridDimY = node_parameters.gridDimZ = 1;
  node_parameters.blockDimX = launch.across;
  node_parameters.blockDimY = launch.behind;
  node_parameters.blockDimZ = 1;
  node_parameters.kernelParams = parameters.data();
  check(Driver::instance().update_node(exec, node, &node_parameters), "changing a captured launch");
}

CapturedCopy capture_copy(void* to, const void* from, std::size_t bytes, CUstream stream) {
  check(Driver::instance().copy(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from), bytes, stream), "copying a tensor");
  return {last_captured(stream), to, from, bytes};
}

void CapturedCopy::update(CUgraphExec exec) const {
  CUDA_MEMCPY3D copy{};
  copy.srcMemoryType = copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  copy.srcDevice = reinterpret_cast<CUdeviceptr>(from);
  copy.dstDevice = reinterpret_cast<CUdeviceptr>(to);
  copy.WidthInBytes = bytes;
  copy.Height = copy.Depth = 1;
  CUcontext context = nullptr;
  check(Driver::instance().current_context(&context), "asking for the context");
  check(Driver::instance().update_copy(exec, node, &copy, context), "changing a captured copy");
}

LaunchLog::LaunchLog() : before_(std::exchange(log_of_thread, this)) {}
LaunchLog::~LaunchLog() { log_of_thread = before_; }

}  // namespace dynrun::runtime::cuda
