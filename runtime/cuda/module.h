#pragma once
// Kernels as PTX or machine code, loaded into each device that launches one.

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

  /// Makes machine code for devices of that compute capability, so that loading takes no time. For several threads at once.
  void prepare(int architecture);
  /// The kernel of that name in the current context, which is the primary one of `device`.
  CUfunction function(int device, const std::string& name);
  const std::string& ptx() const { return ptx_; }

 private:
  std::string ptx_;
  std::mutex mutex_;
  std::map<int, std::string> code_;     // by architecture; empty where the driver has to compile
  std::map<int, CUmodule> loaded_;  // never unloaded: a launch may still be under way at exit
};

}  // namespace dynrun::runtime::cuda
