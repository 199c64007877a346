#pragma once
// Brings libdynrun.so in when it is wanted: once torch has been imported, at `import dynrun`, or at start-up for --vm=all and
// --dump. A script that uses none of these runs as under python and pays nothing.

#include "cli/options.h"
#include "cli/python_api.h"
#include "cli/stack.h"

namespace dynrun::cli {

/// Before Py_Initialize: makes `import dynrun` find the engine's module. The arguments outlive the interpreter.
void register_module(const PythonApi& api, const Options& options, StackBounds stack);

/// After Py_Initialize and before the script: watches for torch, starts the engine where it is wanted without, and has the
/// report written at exit. Needs the GIL. Throws UserError.
void attach_engine();

/// libdynrun.so; null where nothing has wanted it yet.
void* engine_library();

/// Whether the run must end with a failure although the script succeeded: the report could not be written.
bool engine_failed();

}  // namespace dynrun::cli
