#pragma once
// Whether output goes through the standard library's own code alone. Needs the GIL; runs no Python code.

#include <Python.h>

namespace dynrun::guards {

/// io.StringIO, or a text stream over a file as sys.stdout is: writing to it runs no Python code.
bool is_output_stream(PyObject* object);
/// A logging.Logger whose records go to stream and file handlers of the standard library, formatted by its own formatter, without
/// filters; or to nobody.
bool is_plain_logger(PyObject* object);

}  // namespace dynrun::guards
