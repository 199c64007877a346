#include "runtime/cuda/driver.h"

#include <c10/util/Exception.h>

#include <dlfcn.h>

#include <stdexcept>

namespace dynrun::runtime::cuda {
namespace {

#define DYNRUN_TEXT_OF(name) #name
#define DYNRUN_TEXT(name) DYNRUN_TEXT_OF(name)  // cuda.h gives some functions another name

template <typename Function>
void find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) throw std::runtime_error(std::string("the CUDA driver has no ") + name + ": update it");
}

Driver load() {
  void* library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw std::runtime_error("no CUDA driver (libcuda.so.1): install one, or run on the CPU");
  Driver driver{};
  find(library, driver.module_load, DYNRUN_TEXT(cuModuleLoadDataEx));
  find(library, driver.module_function, DYNRUN_TEXT(cuModuleGetFunction));
  find(library, driver.launch, DYNRUN_TEXT(cuLaunchKernel));
  find(library, driver.error_string, DYNRUN_TEXT(cuGetErrorString));
  find(library, driver.device_get, DYNRUN_TEXT(cuDeviceGet));
  find(library, driver.device_attribute, DYNRUN_TEXT(cuDeviceGetAttribute));
  find(library, driver.copy, DYNRUN_TEXT(cuMemcpyDtoDAsync));
  find(library, driver.capture_info, DYNRUN_TEXT(cuStreamGetCaptureInfo));
  find(library, driver.update_node, DYNRUN_TEXT(cuGraphExecKernelNodeSetParams));
  find(library, driver.update_copy, DYNRUN_TEXT(cuGraphExecMemcpyNodeSetParams));
  find(library, driver.add_kernel, DYNRUN_TEXT(cuGraphAddKernelNode));
  find(library, driver.node_launch, DYNRUN_TEXT(cuGraphKernelNodeGetParams));
  find(library, driver.current_context, DYNRUN_TEXT(cuCtxGetCurrent));
  driver.function_parameter = reinterpret_cast<decltype(driver.function_parameter)>(dlsym(library, DYNRUN_TEXT(cuFuncGetParamInfo)));
  driver.kernel_parameter = reinterpret_cast<decltype(driver.kernel_parameter)>(dlsym(library, DYNRUN_TEXT(cuKernelGetParamInfo)));
  return driver;
}

}  // namespace

const Driver& Driver::instance() {
  static const Driver driver = load();
  return driver;
}

void check(CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return;
  const char* words = nullptr;
  Driver::instance().error_string(result, &words);
  TORCH_CHECK(false, "CUDA error: ", words != nullptr ? words : "unknown", " (", what, ")");
}

int architecture_of(int device) {
  const Driver& driver = Driver::instance();
  CUdevice handle = 0;
  int major = 0, minor = 0;
  check(driver.device_get(&handle, device), "finding a device");
  check(driver.device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle), "asking for a device's architecture");
  check(driver.device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle), "asking for a device's architecture");
  return 10 * major + minor;
}

}  // namespace dynrun::runtime::cuda
