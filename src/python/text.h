#pragma once
// Python strings as UTF-8. A name need not be valid text: `setattr` takes lone surrogates, and so does a script's path.

#include "python/reference.h"

#include <cstring>
#include <string>

namespace dynrun::python {

/// A name, to be compared with others and shown, as long as the object lives; one that equals no other where it is no valid text
/// or holds a zero.
inline const char* text_of(PyObject* string) {
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(string, &size);
  if (text == nullptr) PyErr_Clear();
  return text && std::strlen(text) == static_cast<std::size_t>(size) ? text : "\xff";
}

/// A file's name as the system knows it.
inline std::string file_of(PyObject* string) {
  if (const char* text = PyUnicode_AsUTF8(string)) return text;
  PyErr_Clear();
  const Ref bytes = Ref::steal(PyUnicode_AsEncodedString(string, "utf-8", "surrogateescape"));
  if (!bytes) PyErr_Clear();
  return bytes ? std::string(PyBytes_AS_STRING(bytes.get()), static_cast<std::size_t>(PyBytes_GET_SIZE(bytes.get()))) : "?";
}

}  // namespace dynrun::python
