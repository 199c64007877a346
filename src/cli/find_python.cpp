#include "cli/find_python.h"

#include "cli/error.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

namespace dynrun::cli {

namespace fs = std::filesystem;

namespace {

constexpr const char* kCure = "activate an environment of CPython 3.12 or pass --python=PATH";

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

struct Environment {
  std::string home;     // the folder of the interpreter it was made from
  std::string version;  // "3.12.1"
};

/// Reads pyvenv.cfg beside the interpreter or one folder up, as CPython's getpath does.
std::optional<Environment> read_environment(const fs::path& executable) {
  for (const fs::path& folder : {executable.parent_path(), executable.parent_path().parent_path()}) {
    std::ifstream file(folder / "pyvenv.cfg");
    if (!file) continue;
    Environment environment;
    for (std::string line; std::getline(file, line);) {
      const auto equals = line.find('=');
      if (equals == std::string::npos) continue;
      const std::string key = trimmed(line.substr(0, equals));
      if (key == "home") environment.home = trimmed(line.substr(equals + 1));
      if (key == "version" || key == "version_info") environment.version = trimmed(line.substr(equals + 1));
    }
    if (!environment.home.empty()) return environment;
  }
  return std::nullopt;
}

std::optional<fs::path> search_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

/// The interpreter that `text` names: itself, an environment's or installation's, or a command on PATH.
fs::path interpreter_of(const std::string& text, const std::string& origin) {
  std::error_code error;
  if (fs::is_directory(text, error)) {
    for (const char* name : {"bin/python", "bin/python3.12", "bin/python3"}) {
      if (access((fs::path(text) / name).c_str(), X_OK) == 0) return fs::absolute(fs::path(text) / name);
    }
    throw UserError(fmt::format("{} has no bin/python: {}", origin, kCure));
  }
  if (text.find('/') == std::string::npos) {
    if (const auto found = search_path(text)) return fs::absolute(*found);
  }
  if (access(text.c_str(), X_OK) != 0) throw UserError(fmt::format("{} is not an interpreter: {}", origin, kCure));
  return fs::absolute(text);
}

bool is_script(const fs::path& file) {
  std::ifstream stream(file);
  char first[2] = {};
  stream.read(first, 2);
  return first[0] == '#' && first[1] == '!';
}

std::optional<fs::path> find_library(const fs::path& prefix) {
  for (const char* folder : {"lib", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu", "lib64"}) {
    for (const char* name : {"libpython3.12.so.1.0", "libpython3.12.so"}) {
      std::error_code error;
      if (fs::exists(prefix / folder / name, error)) return prefix / folder / name;
    }
  }
  return std::nullopt;
}

/// The CPython version of an installation, by its standard library's folder: "3.11", or empty.
std::string version_of(const fs::path& executable, const fs::path& prefix) {
  std::error_code error;
  if (fs::exists(prefix / "lib/python3.12/os.py", error)) return "3.12";
  const std::string name = fs::weakly_canonical(executable, error).filename();
  return name.rfind("python3.", 0) == 0 ? name.substr(6) : std::string();
}

}  // namespace

PythonHome find_python(const std::string& requested) {
  std::string text = requested;
  std::string origin = fmt::format("--python={}", text);
  const char* active = std::getenv("VIRTUAL_ENV");
  std::error_code error;
  if (text.empty() && active && fs::is_directory(active, error)) {
    text = active;
    origin = fmt::format("the active environment {}", text);
  }
  if (text.empty()) {
    text = DYNRUN_BUILT_PYTHON;
    origin = fmt::format("the interpreter that dynrun was built with, {},", text);
  }
  const fs::path executable = interpreter_of(text, origin);
  if (is_script(executable)) {
    throw UserError(fmt::format("{} is a script, not an interpreter (a pyenv shim?): pass what its sys.executable says", origin));
  }
  const auto environment = read_environment(executable);
  std::vector<fs::path> prefixes;
  if (environment) prefixes.push_back(fs::path(environment->home).parent_path());
  prefixes.push_back(fs::weakly_canonical(executable, error).parent_path().parent_path());
  const std::string version = environment ? environment->version : version_of(executable, prefixes.front());
  if (!version.empty() && version.rfind("3.12", 0) != 0) {
    throw UserError(fmt::format("{} is CPython {}, dynrun needs 3.12: {}", origin, version, kCure));
  }
  for (const fs::path& prefix : prefixes) {
    if (const auto library = find_library(prefix)) return {executable.string(), library->string()};
  }
  throw UserError(fmt::format("{} has no shared library libpython3.12.so under {}: {} that was built with --enable-shared", origin,
                              prefixes.front().string(), kCure));
}

}  // namespace dynrun::cli
