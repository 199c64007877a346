// The dynrun executable: reads the options, finds a CPython 3.12, and runs it as python's own main does, with the engine
// brought in when the script wants it.

#include "cli/engine.h"
#include "cli/error.h"
#include "cli/find_python.h"
#include "cli/options.h"
#include "cli/python_api.h"
#include "cli/stack.h"
#include "report/breaks.h"
#include "report/report.h"

#include <filesystem>

namespace dynrun::cli {

namespace {

struct Program {
  Options options;
  PythonHome home;
  int argc = 0;
  char** argv = nullptr;
};

/// Initialises Python as `python` would be with these arguments. Returns an exit status when it has to end at once.
std::optional<int> initialise(const PythonApi& api, const Program& program) {
  std::vector<char*> arguments;
  for (const std::string& argument : program.options.python_arguments) arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const auto count = static_cast<Py_ssize_t>(arguments.size() - 1);

  PyPreConfig before;
  PyConfig config;
  api.PyPreConfig_InitPythonConfig(&before);
  PyStatus status = api.Py_PreInitializeFromBytesArgs(&before, count, arguments.data());
  api.PyConfig_InitPythonConfig(&config);
  if (!api.PyStatus_Exception(status)) status = api.PyConfig_SetBytesArgv(&config, count, arguments.data());
  if (!api.PyStatus_Exception(status)) {
    status = api.PyConfig_SetBytesString(&config, &config.program_name, program.argv[0]);
  }
  // CPython finds the environment (pyvenv.cfg) and its library from this; sys.executable is set to dynrun afterwards.
  if (!api.PyStatus_Exception(status)) {
    status = api.PyConfig_SetBytesString(&config, &config.executable, program.home.executable.c_str());
  }
  if (!api.PyStatus_Exception(status)) {
    std::vector<wchar_t*> given;
    for (int at = 0; at < program.argc; ++at) given.push_back(api.Py_DecodeLocale(program.argv[at], nullptr));
    status = api.PyConfig_SetWideStringList(&config, &config.orig_argv, program.argc, given.data());
  }
  if (!api.PyStatus_Exception(status)) status = api.Py_InitializeFromConfig(&config);
  api.PyConfig_Clear(&config);
  if (!api.PyStatus_Exception(status)) return std::nullopt;
  if (api.PyStatus_IsExit(status)) return status.exitcode;
  api.Py_ExitStatusException(status);
  return 1;
}

void set_executable(const PythonApi& api) {
  const std::string path = std::filesystem::read_symlink("/proc/self/exe");
  PyObject* text = api.PyUnicode_DecodeFSDefault(path.c_str());
  if (!text || api.PySys_SetObject("executable", text) != 0) api.PyErr_Clear();
  if (text) api.Py_DecRef(text);
}

int run_python(void* argument, StackBounds stack) {
  Program& program = *static_cast<Program*>(argument);
  try {
    // Lives as long as the process: watchers and the module's initialiser point to it.
    static PythonApi api;
    api = load_python(program.home.library);
    register_module(api, program.options, stack);
    if (const auto status = initialise(api, program)) return *status;
    api.read_objects();
    set_executable(api);
    attach_engine();
    const int status = api.Py_RunMain();
    return status == 0 && engine_failed() ? 1 : status;
  } catch (const UserError& error) {
    print_error(error.what());
    return error.status;
  } catch (const std::exception& error) {
    print_error(error.what());
    return 1;
  }
}

int run(int argc, char** argv) {
  Program program{parse_options(argc, argv), {}, argc, argv};
  const Options& options = program.options;
  if (options.help || options.version || options.explain_ids) {
    std::fputs((options.help ? help_text() : options.version ? version_text() : report::ids_text()).c_str(), stdout);
    return std::fflush(stdout) == 0 ? 0 : 1;
  }
  for (const std::string* file : {&options.explain_file, &options.html_file}) {
    if (file->empty() || options.child) continue;
    if (const auto error = report::check_writable(*file)) throw UserError("--explain " + *error);
  }
  if (!options.stats_file.empty() && !options.child) {
    if (const auto error = report::check_writable(options.stats_file)) throw UserError("--stats " + *error);
  }
  program.home = find_python(options.python);
  export_options(options, program.home.executable);
  return run_on_large_stack(run_python, &program);
}

}  // namespace

}  // namespace dynrun::cli

int main(int argc, char** argv) {
  try {
    return dynrun::cli::run(argc, argv);
  } catch (const dynrun::cli::UserError& error) {
    dynrun::cli::print_error(error.what());
    return error.status;
  } catch (const std::exception& error) {
    dynrun::cli::print_error(error.what());
    return 1;
  }
}
