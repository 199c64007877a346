#pragma once
// CPython 3.12's interpreter frame, field by field. The internal headers do not compile as C++; compat_3_12.c asserts that
// this mirror has the same layout.

#include <Python.h>

#include <cstdint>

namespace dynrun::python {

enum FrameOwner : char { kOwnedByThread = 0, kOwnedByGenerator = 1, kOwnedByFrameObject = 2, kOwnedByCStack = 3 };

struct Frame {
  PyCodeObject* code;       // strong
  Frame* previous;          // borrowed
  PyObject* function;       // strong
  PyObject* globals;        // borrowed
  PyObject* builtins;       // borrowed
  PyObject* locals;         // strong, may be null
  PyFrameObject* frame_object;  // strong, may be null
  std::uint16_t* previous_instruction;  // the last instruction started; code units
  int stack_top;            // offset of the stack top in localsplus when not running
  std::uint16_t return_offset;
  char owner;
  PyObject* localsplus[1];  // locals, cells, free variables, then the stack
};

/// The file of code that runs in the place of functions written in C: neither tracebacks nor reports show its frames (see trace/recorder_functions.cpp).
inline constexpr const char* kStandInFile = "<dynrun>/_functions.py";

inline bool stands_in(PyCodeObject* code) { return PyUnicode_CompareWithASCIIString(code->co_filename, kStandInFile) == 0; }

/// The line that the frame is at.
inline int line_of(const Frame* frame) {
  const auto* first = reinterpret_cast<const std::uint16_t*>(frame->code->co_code_adaptive);
  return PyCode_Addr2Line(frame->code, static_cast<int>(frame->previous_instruction - first) * static_cast<int>(sizeof(std::uint16_t)));
}

/// The line of the instruction at a code unit, for people: what prepares a function's cells is in its first one.
inline int shown_line(PyCodeObject* code, int unit) {
  const int line = PyCode_Addr2Line(code, unit * static_cast<int>(sizeof(std::uint16_t)));
  return line > 0 ? line : code->co_firstlineno;
}

/// Whether a traceback can show a line for the instruction at `unit`.
inline bool has_line(PyCodeObject* code, int unit) { return PyCode_Addr2Line(code, unit * static_cast<int>(sizeof(std::uint16_t))) >= 0; }

}  // namespace dynrun::python
