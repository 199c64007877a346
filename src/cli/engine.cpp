#include "cli/engine.h"

#include "cli/error.h"
#include "report/report.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <utility>

namespace dynrun::cli {

namespace {

// The states of the engine's life, in order; a start that failed ends in kFailed.
enum class Stage { kWaiting, kScheduled, kStarted, kFailed, kStopped };

struct State {
  const PythonApi* api = nullptr;
  const Options* options = nullptr;
  StackBounds stack;
  std::vector<DynrunDump> dumps;
  DynrunOptions engine_options{};
  void* library = nullptr;
  Stage stage = Stage::kWaiting;
  bool torch_ready = false;
  bool torch_checked = false;
  bool exit_registered = false;
  bool report_failed = false;
  pid_t process = 0;
  int watcher = -1;
  std::string error;  // to be raised in the main thread
};

State state;

template <typename Function>
Function find(const char* name) {
  return reinterpret_cast<Function>(dlsym(state.library, name));
}

std::filesystem::path own_folder() { return std::filesystem::read_symlink("/proc/self/exe").parent_path(); }

/// At exit. Destructors of PyTorch's Python bindings take the GIL. Where the last thread of a forked child ends the process, the
/// interpreter is alive but no longer knows the thread: they would abort, in a script that may never have heard of torch.
void skip_destructors(int status, void*) {
  const auto initialized = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "Py_IsInitialized"));
  const auto thread_state = reinterpret_cast<void* (*)()>(dlsym(RTLD_DEFAULT, "PyGILState_GetThisThreadState"));
  if (!initialized || !thread_state || !initialized() || thread_state()) return;
  std::fflush(nullptr);
  _exit(status);
}

/// Opens libdynrun.so. Throws UserError.
void open_library() {
  if (state.library) return;
  const std::filesystem::path path = own_folder() / "libdynrun.so";
  state.library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!state.library) {
    throw UserError(fmt::format("cannot load the engine: {}; build it again with tools/dynrun, or run with --vm=off", dlerror()));
  }
  on_exit(skip_destructors, nullptr);  // after the library's own: so it runs before them
}

void tell_torch_ready() {
  if (state.stage != Stage::kStarted || !state.torch_ready) return;
  if (const auto ready = find<decltype(&dynrun_engine_torch_ready)>("dynrun_engine_torch_ready")) ready();
}

void register_exit_function();

/// Starts the engine, once. Throws UserError.
void start_engine() {
  if (state.stage == Stage::kStarted || state.stage == Stage::kFailed || state.stage == Stage::kStopped) return;
  state.stage = Stage::kFailed;
  open_library();
  register_exit_function();
  const auto start = find<decltype(&dynrun_engine_start)>("dynrun_engine_start");
  if (!start) return;  // a library without an engine: the script runs as under python
  char error[1024] = "";
  if (start(&state.engine_options, error, sizeof error) != 0) {
    throw UserError(fmt::format("{}; or run with --vm=off, as under python", error));
  }
  state.stage = Stage::kStarted;
  tell_torch_ready();
}

/// Ends the program with the error's line. As an exception where the main thread can raise it, so that the script's `finally`
/// blocks and exit functions run.
int raise_exit(const std::string& error) {
  print_error(error);
  state.api->PyErr_SetObject(state.api->system_exit, state.api->PyLong_FromLong(1));
  return -1;
}

int raise_pending(void*) {
  const std::string error = std::exchange(state.error, {});
  return error.empty() ? 0 : raise_exit(error);
}

/// Runs a moment after torch's import is complete, between two bytecode instructions.
int start_pending(void*) {
  try {
    start_engine();
    return 0;
  } catch (const UserError& error) {
    if (gettid() == getpid()) return raise_exit(error.what());
    state.error = error.what();
    return state.api->Py_AddPendingCall(raise_pending, nullptr);
  }
}

/// In whichever thread comes first: torch may have been imported by another than the main one, which may be waiting.
void schedule(int (*function)(void*)) {
  using AddPendingCall = int (*)(PyInterpreterState*, int (*)(void*), void*, int);
  using GetInterpreter = PyInterpreterState* (*)();
  const auto add = reinterpret_cast<AddPendingCall>(dlsym(RTLD_DEFAULT, "_PyEval_AddPendingCall"));
  const auto interpreter = reinterpret_cast<GetInterpreter>(dlsym(RTLD_DEFAULT, "PyInterpreterState_Get"));
  if (gettid() == getpid() || !add || !interpreter) {
    state.api->Py_AddPendingCall(function, nullptr);
  } else {
    add(interpreter(), function, nullptr, 0);
  }
}

/// PyTorch's version text beside the file of its package ("2.11.0+cu130"), empty where there is none.
std::string torch_version(const std::string& package_file) {
  std::ifstream file(std::filesystem::path(package_file).parent_path() / "version.py");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind("__version__", 0) != 0) continue;
    const auto first = line.find_first_of("'\"");
    const auto last = line.find_last_of("'\"");
    if (first != std::string::npos && last > first) return line.substr(first + 1, last - first - 1);
  }
  return {};
}

/// torch is about to run its own __init__: refuse a version that the engine was not built for before its libraries load.
void check_torch(PyObject* module_dict) {
  if (state.torch_checked || (state.stage != Stage::kWaiting && state.stage != Stage::kStarted)) return;
  PyObject* file = state.api->PyDict_GetItemString(module_dict, "__file__");
  const char* path = file ? state.api->PyUnicode_AsUTF8(file) : nullptr;
  if (!path) {
    state.api->PyErr_Clear();
    return;
  }
  const std::string version = torch_version(path);
  if (version.empty()) return;  // a script's own module of that name
  state.torch_checked = true;
  if (version.substr(0, version.find('+')) == DYNRUN_TORCH_VERSION) return;
  state.stage = Stage::kFailed;
  state.error = fmt::format("{} is PyTorch {}, dynrun was built for {}: install torch=={}, or run with --vm=off, as under python",
                            std::filesystem::path(path).parent_path().string(), version, DYNRUN_TORCH_VERSION,
                            DYNRUN_TORCH_VERSION);
  state.api->Py_AddPendingCall(raise_pending, nullptr);
}

/// The import system takes a module out of sys.modules and puts it in again when its body has run: the sign that torch is whole.
void torch_changed(PyObject* module) {
  PyObject* dict = state.api->PyModule_GetDict(module);
  if (!dict) {
    state.api->PyErr_Clear();
    return;
  }
  check_torch(dict);
  if (!state.torch_checked || state.torch_ready || !state.api->PyDict_GetItemString(dict, "_C")) return;
  state.torch_ready = true;
  if (state.stage == Stage::kWaiting) {
    state.stage = Stage::kScheduled;
    schedule(start_pending);
  } else if (state.stage == Stage::kStarted) {
    schedule([](void*) {
      tell_torch_ready();
      return 0;
    });
  }
}

/// Likewise torch._dynamo, whose body ends with `reset` in place.
void dynamo_changed(PyObject* module) {
  PyObject* dict = state.api->PyModule_GetDict(module);
  if (!dict) state.api->PyErr_Clear();
  if (!dict || state.stage != Stage::kStarted || !state.torch_ready || !state.api->PyDict_GetItemString(dict, "reset")) return;
  schedule([](void*) {
    if (const auto ready = find<decltype(&dynrun_engine_dynamo_ready)>("dynrun_engine_dynamo_ready")) ready();
    return 0;
  });
}

int modules_changed(PyDict_WatchEvent event, PyObject*, PyObject* key, PyObject* value) {
  if ((event != PyDict_EVENT_ADDED && event != PyDict_EVENT_MODIFIED) || !key || !value) return 0;
  if (!PyUnicode_Check(key)) return 0;
  if (state.api->PyUnicode_CompareWithASCIIString(key, "torch") == 0) torch_changed(value);
  if (state.api->PyUnicode_CompareWithASCIIString(key, "torch._dynamo") == 0) dynamo_changed(value);
  return 0;
}

void flush_output(const char* name) {
  PyObject* stream = state.api->PySys_GetObject(name);
  if (!stream || stream == state.api->none) return;
  PyObject* result = state.api->PyObject_CallMethod(stream, "flush", nullptr);
  if (result) {
    state.api->Py_DecRef(result);
  } else {
    state.api->PyErr_Clear();  // python reports it when it flushes the stream itself
  }
}

/// The report of a run that never needed the engine: nothing was captured.
std::string write_empty_report() {
  const report::Report nothing;
  if (state.options->child) return {};
  if (state.options->explain != kDynrunExplainNone) {
    const std::string text =
        state.options->explain == kDynrunExplainJson ? report::to_json(nothing) : report::to_text(nothing);
    std::fputs(text.c_str(), stderr);
  }
  for (const std::string* file : {&state.options->stats_file, &state.options->explain_file}) {
    if (file->empty()) continue;
    if (auto wrong = report::write_file(*file, report::to_json(nothing))) return *wrong;
  }
  if (!state.options->html_file.empty()) return report::write_file(state.options->html_file, report::to_html(nothing)).value_or("");
  return {};
}

PyObject* stop_engine(PyObject*, PyObject*) {
  const bool started = state.stage == Stage::kStarted;
  // A forked child runs the exit functions it inherited; the report is its parent's.
  if (state.process == getpid() && state.stage != Stage::kStopped) {
    flush_output("stdout");
    flush_output("stderr");
    std::string error;
    if (state.stage == Stage::kStarted) {
      char text[1024] = "";
      const auto stop = find<decltype(&dynrun_engine_stop)>("dynrun_engine_stop");
      if (stop && stop(text, sizeof text) != 0) error = text;
    } else {
      error = write_empty_report();
    }
    state.stage = Stage::kStopped;
    if (!error.empty()) {
      print_error(error);
      state.report_failed = true;
    }
  }
  const auto release = started ? find<decltype(&dynrun_engine_release)>("dynrun_engine_release") : nullptr;
  if (release) release();
  state.api->Py_IncRef(state.api->none);
  return state.api->none;
}

PyMethodDef stop_method{"stop_dynrun", stop_engine, METH_NOARGS, nullptr};

/// Once: with the first of the exit functions, so that it runs last, where a report was asked for; else with the engine.
void register_exit_function() {
  if (std::exchange(state.exit_registered, true)) return;
  const PythonApi& api = *state.api;
  PyObject* function = api.PyCMethod_New(&stop_method, nullptr, nullptr, nullptr);
  PyObject* module = function ? api.PyImport_ImportModule("atexit") : nullptr;
  PyObject* result = module ? api.PyObject_CallMethod(module, "register", "O", function) : nullptr;
  if (!result) {
    api.PyErr_Clear();
    throw UserError("Python's atexit module does not work: the report cannot be written");
  }
  api.Py_DecRef(result);
  api.Py_DecRef(module);
  api.Py_DecRef(function);
}

/// `import dynrun`.
PyObject* init_module() {
  const PythonApi& api = *state.api;
  try {
    PyObject* torch = api.PyImport_ImportModule("torch");
    if (!torch) return nullptr;
    api.Py_DecRef(torch);
    state.torch_ready = true;
    start_engine();
    open_library();
    using Init = PyObject* (*)();
    if (const auto init = find<Init>("PyInit_dynrun")) return init();
    api.PyErr_SetString(api.import_error, "this build of dynrun has no Python module: build it again with tools/dynrun");
  } catch (const UserError& error) {
    api.PyErr_SetString(api.import_error, error.what());
  }
  return nullptr;
}

}  // namespace

void register_module(const PythonApi& api, const Options& options, StackBounds stack) {
  state.api = &api;
  state.options = &options;
  state.stack = stack;
  state.process = getpid();
  for (const Dump& dump : options.dumps) state.dumps.push_back({dump.stage.c_str(), dump.filter.c_str()});
  state.engine_options = {
      .size = sizeof(DynrunOptions),
      .vm = options.vm,
      .explain = options.explain,
      .stats_file = options.stats_file.empty() ? nullptr : options.stats_file.c_str(),
      .explain_file = options.explain_file.empty() ? nullptr : options.explain_file.c_str(),
      .html_file = options.html_file.empty() ? nullptr : options.html_file.c_str(),
      .dumps = state.dumps.data(),
      .dump_count = state.dumps.size(),
      .stress = options.stress,
      .dynamic = options.dynamic,
      .cache = options.cache.empty() ? nullptr : options.cache.c_str(),
      .fullgraph = options.fullgraph,
      .keep_torch_compile = options.keep_torch_compile,
      .quiet = options.quiet,
      .verify = options.verify,
      .child = options.child,
      .stack_low = stack.low,
      .stack_high = stack.high,
  };
  api.PyImport_AppendInittab("dynrun", init_module);
}

void attach_engine() {
  if (!state.options->stats_file.empty() || !state.options->explain_file.empty() || !state.options->html_file.empty() || state.options->explain != kDynrunExplainNone) register_exit_function();
  if (state.options->vm == kDynrunVmOff) return;
  const PythonApi& api = *state.api;
  state.watcher = api.PyDict_AddWatcher(modules_changed);
  if (state.watcher < 0 || api.PyDict_Watch(state.watcher, api.PyImport_GetModuleDict()) < 0) {
    api.PyErr_Clear();
    throw UserError("CPython has no dict watcher left: a .pth file or sitecustomize has taken them all; run with -S");
  }
  if (state.options->vm == kDynrunVmAll || !state.options->dumps.empty()) start_engine();
}

void* engine_library() { return state.library; }

bool engine_failed() { return state.report_failed; }

}  // namespace dynrun::cli
