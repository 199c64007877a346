// Stands in for libtorch_python's converter of tensors: the engine hears of each tensor that an extension module is given.

#include "guards/tensor_converter.h"

#include "cli/engine.h"
#include "engine/exports.h"

#include <Python.h>
#include <dlfcn.h>

extern "C" DYNRUN_EXPORT bool dynrun_tensor_converter(void* caster, PyObject* object, bool convert) __asm__(DYNRUN_TENSOR_CONVERTER);

bool dynrun_tensor_converter(void* caster, PyObject* object, bool convert) {
  static decltype(&dynrun_engine_load_tensor) engines = nullptr;
  if (void* library = engines ? nullptr : dynrun::cli::engine_library()) engines = reinterpret_cast<decltype(engines)>(dlsym(library, "dynrun_engine_load_tensor"));
  if (engines) return engines(caster, object, convert, __builtin_return_address(0));
  static const auto original = [] {
    void* library = dlopen("libtorch_python.so", RTLD_LAZY | RTLD_NOLOAD);
    return library ? reinterpret_cast<decltype(&dynrun_tensor_converter)>(dlsym(library, DYNRUN_TENSOR_CONVERTER)) : nullptr;
  }();
  return original && original(caster, object, convert);
}
