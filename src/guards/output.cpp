#include "guards/output.h"

#include "guards/program.h"
#include "python/reference.h"

#include <initializer_list>
#include <unordered_map>

namespace dynrun::guards {

using python::Ref;

namespace {

/// The text of a literal, by its address: these checks run on every replay that prints.
PyObject* interned(const char* literal) {
  static std::unordered_map<const void*, PyObject*> texts;
  PyObject*& text = texts[literal];
  if (text == nullptr) text = PyUnicode_InternFromString(literal);
  return text;
}

Ref part(PyObject* object, const char* name) {
  Ref value = Ref::steal(object ? PyObject_GetAttr(object, interned(name)) : nullptr);
  PyErr_Clear();
  return value;
}

/// The instance's own attribute, borrowed, or null.
PyObject* own(PyObject* object, const char* name) {
  PyObject* dict = object ? instance_dict(object) : nullptr;
  return dict ? PyDict_GetItem(dict, interned(name)) : nullptr;
}

PyObject* of_module(const char* module, const char* name) {
  PyObject* found = PyDict_GetItem(PyImport_GetModuleDict(), interned(module));
  return found && PyModule_Check(found) ? PyDict_GetItem(PyModule_GetDict(found), interned(name)) : nullptr;
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
  // C classes, which live as long as the interpreter.
  static PyObject* const text_file = of_module("_io", "TextIOWrapper");
  static PyObject* const writer = of_module("_io", "BufferedWriter");
  static PyObject* const file = of_module("_io", "FileIO");
  auto is_a = [](PyObject* one, PyObject* type) { return one && type && reinterpret_cast<PyObject*>(Py_TYPE(one)) == type; };
  // `stream.write = ...` on the object itself.
  if (own(object, "write") || own(object, "flush")) return false;
  static PyObject* const in_memory = of_module("_io", "StringIO");
  if (is_a(object, in_memory)) return true;
  if (!is_a(object, text_file)) return false;
  Ref buffer = part(object, "buffer");
  if (is_a(buffer.get(), file)) return true;
  if (!is_a(buffer.get(), writer)) return false;
  Ref raw = part(buffer.get(), "raw");
  return is_a(raw.get(), file);
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
