#include "cli/python_api.h"

#include "cli/error.h"

#include <dlfcn.h>

namespace dynrun::cli {

PythonApi load_python(const std::string& library) {
  PythonApi api;
  api.library_ = dlopen(library.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (!api.library_) throw UserError(fmt::format("cannot load {}: {}", library, dlerror()));
#define DYNRUN_FIND(name)                                                                                        \
  api.name = reinterpret_cast<decltype(api.name)>(dlsym(api.library_, #name));                                   \
  if (!api.name) {                                                                                               \
    throw UserError(fmt::format("{} lacks {}: it is no CPython 3.12; pass --python=PATH of one", library, #name)); \
  }
  DYNRUN_PYTHON_FUNCTIONS(DYNRUN_FIND)
#undef DYNRUN_FIND
  const std::string version = api.Py_GetVersion();
  if (version.rfind("3.12.", 0) != 0) {
    throw UserError(fmt::format("{} is CPython {}, dynrun needs 3.12: pass --python=PATH of one", library,
                                version.substr(0, version.find(' '))));
  }
  return api;
}

void PythonApi::read_objects() {
  system_exit = *static_cast<PyObject**>(dlsym(library_, "PyExc_SystemExit"));
  import_error = *static_cast<PyObject**>(dlsym(library_, "PyExc_ImportError"));
  none = static_cast<PyObject*>(dlsym(library_, "_Py_NoneStruct"));
}

}  // namespace dynrun::cli
