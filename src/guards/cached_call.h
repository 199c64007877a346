#pragma once
// What functools.lru_cache holds, read without calling it. Needs the GIL.

#include "python/reference.h"

#include <vector>

namespace dynrun::guards {

/// The key under which `wrapper` (a functools._lru_cache_wrapper) keeps the result of a call; null for another object.
python::Ref cache_key(PyObject* wrapper, const std::vector<PyObject*>& arguments, Py_ssize_t positional, PyObject* keyword_names);
/// The result kept under `key`, borrowed; null where there is none.
PyObject* cached_result(PyObject* wrapper, PyObject* key);

}  // namespace dynrun::guards
