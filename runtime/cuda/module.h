#pragma once
// Kernels as PTX, loaded into each device that launches one.

#include "runtime/cuda/driver.h"

#include <map>
#include <mutex>
#include <string>

namespace dynrun::runtime::cuda {

class Module {
 public:
  explicit Module(std::string ptx) : ptx_(std::move(ptx)) {}
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// The kernel of that name in the current context, which is the primary one of `device`.
  CUfunction function(int device, const std::string& name);
  const std::string& ptx() const { return ptx_; }

 private:
  std::string ptx_;
  std::mutex mutex_;
  std::map<int, CUmodule> loaded_;  // never unloaded: a launch may still be under way at exit
};

}  // namespace dynrun::runtime::cuda
