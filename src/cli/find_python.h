#pragma once
// Finds the CPython that dynrun embeds, from the files of an installation or a virtual environment, without running it.

#include <string>

namespace dynrun::cli {

struct PythonHome {
  std::string executable;  // what python would call sys.executable: an environment's bin/python finds its site-packages
  std::string library;     // libpython3.12.so
};

/// `requested` (--python, may be empty) is an interpreter or an environment's folder. Else the active environment's
/// (VIRTUAL_ENV), else the one dynrun was built with. Throws UserError.
PythonHome find_python(const std::string& requested);

}  // namespace dynrun::cli
