#include "runtime/cuda/assembler.h"

#include "runtime/disk_cache.h"

#include <nvJitLink.h>

#include <dlfcn.h>

#include <array>
#include <optional>

namespace dynrun::runtime::cuda {
namespace {

/// The functions of nvJitLink that are called; the header gives them the names of its own version, unlike the library.
struct Linker {
  decltype(&::nvJitLinkCreate) create;
  decltype(&::nvJitLinkDestroy) destroy;
  decltype(&::nvJitLinkAddData) add;
  decltype(&::nvJitLinkComplete) complete;
  decltype(&::nvJitLinkGetLinkedCubinSize) size;
  decltype(&::nvJitLinkGetLinkedCubin) get;
  std::string version;
};

template <typename Function>
bool find(void* library, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

std::optional<Linker> load() {
  static constexpr std::array kNames = {"libnvJitLink.so.13", "libnvJitLink.so.12"};
  void* library = nullptr;
  for (const char* name : kNames) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) return std::nullopt;
  Linker linker{};
  unsigned major = 0, minor = 0;
  nvJitLinkResult (*version)(unsigned*, unsigned*) = nullptr;
  if (!find(library, linker.create, "nvJitLinkCreate") || !find(library, linker.destroy, "nvJitLinkDestroy") || !find(library, linker.add, "nvJitLinkAddData") ||
      !find(library, linker.complete, "nvJitLinkComplete") || !find(library, linker.size, "nvJitLinkGetLinkedCubinSize") ||
      !find(library, linker.get, "nvJitLinkGetLinkedCubin") || !find(library, version, "nvJitLinkVersion") || version(&major, &minor) != NVJITLINK_SUCCESS) {
    return std::nullopt;
  }
  linker.version = std::to_string(major) + "." + std::to_string(minor);
  return linker;
}

std::string link(const Linker& linker, const std::string& ptx, int architecture) {
  const std::string target = "-arch=sm_" + std::to_string(architecture);
  std::array<const char*, 1> options = {target.c_str()};
  nvJitLinkHandle handle = nullptr;
  if (linker.create(&handle, options.size(), options.data()) != NVJITLINK_SUCCESS) return {};
  std::string code;
  std::size_t size = 0;
  if (linker.add(handle, NVJITLINK_INPUT_PTX, ptx.c_str(), ptx.size() + 1, "kernels") == NVJITLINK_SUCCESS && linker.complete(handle) == NVJITLINK_SUCCESS &&
      linker.size(handle, &size) == NVJITLINK_SUCCESS) {
    code.resize(size);
    if (linker.get(handle, code.data()) != NVJITLINK_SUCCESS) code.clear();
  }
  linker.destroy(&handle);
  return code;
}

}  // namespace

std::string assemble(const std::string& ptx, int architecture) {
  static const std::optional<Linker> linker = load();
  if (!linker) return {};
  constexpr const char* kKind = "cubin";
  const std::string key = "nvJitLink " + linker->version + " sm_" + std::to_string(architecture) + "\n" + ptx;
  if (auto kept = DiskCache::instance().find(kKind, key)) return std::move(*kept);
  std::string code = link(*linker, ptx, architecture);
  if (!code.empty()) DiskCache::instance().keep(kKind, key, code);
  return code;
}

}  // namespace dynrun::runtime::cuda
