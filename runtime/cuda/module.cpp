#include "runtime/cuda/module.h"

#include "runtime/cuda/assembler.h"

#include <c10/util/Exception.h>

#include <array>

namespace dynrun::runtime::cuda {

void Module::prepare(int architecture) {
  {
    std::lock_guard lock(mutex_);
    if (code_.count(architecture) != 0) return;
  }
  std::string code = assemble(ptx_, architecture);
  std::lock_guard lock(mutex_);
  code_.emplace(architecture, std::move(code));
}

CUfunction Module::function(int device, const std::string& name) {
  std::lock_guard lock(mutex_);
  const Driver& driver = Driver::instance();
  CUmodule& module = loaded_[device];
  if (module == nullptr) {
    std::array<char, 4096> log{};
    std::array<CUjit_option, 2> options = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size())};
    auto load = [&](const std::string& image) { return driver.module_load(&module, image.c_str(), static_cast<unsigned>(options.size()), options.data(), values.data()); };
    const auto code = code_.find(architecture_of(device));
    // A driver that is older than what made the code may refuse it.
    const bool ready = code != code_.end() && !code->second.empty() && load(code->second) == CUDA_SUCCESS;
    const CUresult result = ready ? CUDA_SUCCESS : load(ptx_);
    TORCH_CHECK(result != CUDA_ERROR_INVALID_PTX, "the CUDA driver refuses a kernel: ", log.data());
    check(result, "loading kernels");
  }
  CUfunction function = nullptr;
  check(driver.module_function(&function, module, name.c_str()), "finding a kernel");
  return function;
}

}  // namespace dynrun::runtime::cuda
