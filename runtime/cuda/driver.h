#pragma once
// CUDA's driver, loaded when it is first needed: the program runs on machines without one.

#include <cuda.h>

#include <string>

namespace dynrun::runtime::cuda {

/// The functions of libcuda.so.1 that dynrun calls itself.
struct Driver {
  decltype(&cuModuleLoadDataEx) module_load;
  decltype(&cuModuleGetFunction) module_function;
  decltype(&cuLaunchKernel) launch;
  decltype(&cuGetErrorString) error_string;
  decltype(&cuDeviceGet) device_get;
  decltype(&cuDeviceGetAttribute) device_attribute;
  decltype(&cuMemcpyDtoDAsync) copy;
  decltype(&cuStreamGetCaptureInfo) capture_info;
  decltype(&cuGraphExecKernelNodeSetParams) update_node;
  decltype(&cuGraphExecMemcpyNodeSetParams) update_copy;
  decltype(&cuGraphAddKernelNode) add_kernel;
  decltype(&cuGraphKernelNodeGetParams) node_launch;
  decltype(&cuCtxGetCurrent) current_context;
  // Since CUDA 12.4; null in earlier drivers.
  decltype(&cuFuncGetParamInfo) function_parameter;
  decltype(&cuKernelGetParamInfo) kernel_parameter;

  /// Throws std::runtime_error where there is no driver.
  static const Driver& instance();
};

/// Throws c10::Error with the driver's words, unless `result` is success.
void check(CUresult result, const char* what);

/// The compute capability as 10 * major + minor.
int architecture_of(int device);

}  // namespace dynrun::runtime::cuda
