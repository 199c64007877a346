#include "guards/output.h"

#include "guards/program.h"
#include "python/reference.h"

#include <initializer_list>

namespace dynrun::guards {

using python::Ref;

namespace {

Ref part(PyObject* object, const char* name) {
  Ref value = Ref::steal(object ? PyObject_GetAttrString(object, name) : nullptr);
  PyErr_Clear();
  return value;
}

/// The instance's own attribute, borrowed, or null.
PyObject* own(PyObject* object, const char* name) {
  PyObject* dict = object ? instance_dict(object) : nullptr;
  return dict ? PyDict_GetItemString(dict, name) : nullptr;
}

PyObject* of_module(const char* module, const char* name) {
  PyObject* found = PyDict_GetItemString(PyImport_GetModuleDict(), module);
  return found && PyModule_Check(found) ? PyDict_GetItemString(PyModule_GetDict(found), name) : nullptr;
}

bool is_exactly(PyObject* object, const char* module, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (object && reinterpret_cast<PyObject*>(Py_TYPE(object)) == of_module(module, name)) return true;
  }
  return false;
}

bool is_empty_list(PyObject* object) { return object && PyList_CheckExact(object) && PyList_GET_SIZE(object) == 0; }

bool is_plain_formatter(PyObject* formatter) {
  if (formatter == nullptr || formatter == Py_None) return formatter != nullptr;
  PyObject* style = own(formatter, "_style");
  PyObject* text = own(style, "_fmt");
  return is_exactly(formatter, "logging", {"Formatter"}) && is_exactly(style, "logging", {"PercentStyle", "StrFormatStyle", "StringTemplateStyle"}) &&
         text && PyUnicode_CheckExact(text) && !own(formatter, "format");
}

bool is_plain_handler(PyObject* handler) {
  if (is_exactly(handler, "logging", {"NullHandler"})) return true;
  if (!is_exactly(handler, "logging", {"StreamHandler", "FileHandler", "_StderrHandler"})) return false;
  for (const char* patched : {"emit", "handle", "format", "flush", "handleError"}) {
    if (own(handler, patched)) return false;
  }
  PyObject* stream = is_exactly(handler, "logging", {"_StderrHandler"}) ? of_module("sys", "stderr") : own(handler, "stream");
  return is_empty_list(own(handler, "filters")) && is_plain_formatter(own(handler, "formatter")) && stream && is_output_stream(stream);
}

}  // namespace

bool is_output_stream(PyObject* object) {
  // `stream.write = ...` on the object itself.
  if (own(object, "write") || own(object, "flush")) return false;
  if (is_exactly(object, "_io", {"StringIO"})) return true;
  if (!is_exactly(object, "_io", {"TextIOWrapper"})) return false;
  Ref buffer = part(object, "buffer");
  if (is_exactly(buffer.get(), "_io", {"FileIO"})) return true;
  if (!is_exactly(buffer.get(), "_io", {"BufferedWriter"})) return false;
  Ref raw = part(buffer.get(), "raw");
  return is_exactly(raw.get(), "_io", {"FileIO"});
}

bool is_plain_logger(PyObject* object) {
  if (!is_exactly(object, "logging", {"Logger", "RootLogger"})) return false;
  if (of_module("logging", "_logRecordFactory") != of_module("logging", "LogRecord")) return false;
  bool handled = false;
  for (PyObject* logger = object; logger && logger != Py_None; logger = own(logger, "parent")) {
    if (!is_exactly(logger, "logging", {"Logger", "RootLogger"})) return false;
    for (const char* patched : {"handle", "makeRecord", "findCaller", "callHandlers", "_log", "filter"}) {
      if (own(logger, patched)) return false;
    }
    if (logger == object && !is_empty_list(own(logger, "filters"))) return false;
    PyObject* handlers = own(logger, "handlers");
    if (!handlers || !PyList_CheckExact(handlers)) return false;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(handlers); i++) {
      handled = true;
      if (!is_plain_handler(PyList_GET_ITEM(handlers, i))) return false;
    }
    if (own(logger, "propagate") != Py_True) break;
  }
  PyObject* last = of_module("logging", "lastResort");
  return handled || last == Py_None || (last && is_plain_handler(last));
}

}  // namespace dynrun::guards
