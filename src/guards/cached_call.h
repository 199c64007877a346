#pragma once
// What functools.lru_cache holds, read without calling it. Needs the GIL.

#include "python/reference.h"

#include <cstdint>
#include <vector>

namespace dynrun::guards {

/// The key under which `wrapper` (a functools._lru_cache_wrapper) keeps the result of a call; null for another object. `parts` are the
/// arguments as they are to stand in the key.
python::Ref cache_key(PyObject* wrapper, const std::vector<PyObject*>& arguments, const std::vector<PyObject*>& parts, Py_ssize_t positional,
                      PyObject* keyword_names);
/// The result kept under `key`, borrowed; null where there is none.
PyObject* cached_result(PyObject* wrapper, PyObject* key);

/// What stands in a key for the object that a source leads to, so that the key does not keep it alive.
python::Ref key_place(std::int32_t source);
/// A copy of `key` with what `registers` hold, by source, in its places. Null where one holds nothing.
python::Ref filled_key(PyObject* key, const std::vector<PyObject*>& registers);

}  // namespace dynrun::guards
