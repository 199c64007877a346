#include "bytecode/code.h"

#include <Python.h>

#include <fmt/format.h>

#include <iterator>

namespace dynrun::bytecode {
namespace {

std::string repr(PyObject* object) {
  PyObject* text = PyObject_Repr(object);
  if (!text) {
    PyErr_Clear();
    return "?";
  }
  const char* utf8 = PyUnicode_AsUTF8(text);
  std::string result = utf8 ? utf8 : "?";
  Py_DECREF(text);
  return result;
}

std::string name_of(PyObject* tuple, int index) {
  if (index < 0 || index >= PyTuple_GET_SIZE(tuple)) return "?";
  const char* utf8 = PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, index));
  return utf8 ? utf8 : "?";
}

std::string argument_in_words(const Code& code, const Instruction& instruction) {
  PyCodeObject* object = code.object;
  int argument = instruction.argument;
  switch (info(instruction.opcode).argument) {
    case ArgumentKind::kNone:
      return "";
    case ArgumentKind::kConstant:
      return repr(PyTuple_GET_ITEM(object->co_consts, argument));
    case ArgumentKind::kName:
      return name_of(object->co_names, argument);
    case ArgumentKind::kNameFlag:
      return name_of(object->co_names, argument >> 1) + (argument & 1 ? " + null or self" : "");
    case ArgumentKind::kNameSuper:
      return name_of(object->co_names, argument >> 2) + (argument & 1 ? " + null or self" : "");
    case ArgumentKind::kLocal:
      return name_of(object->co_localsplusnames, argument);
    case ArgumentKind::kTarget:
      return fmt::format("to {}", argument);
    case ArgumentKind::kCompare: {
      static const char* const kOperators[] = {"<", "<=", "==", "!=", ">", ">="};
      return kOperators[argument >> 4];
    }
    case ArgumentKind::kOperator: {
      static const char* const kOperators[] = {"+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^"};
      return std::string(kOperators[argument % 13]) + (argument >= 13 ? "=" : "");
    }
    case ArgumentKind::kCount:
    case ArgumentKind::kFlags:
    case ArgumentKind::kIntrinsic:
      return fmt::to_string(argument);
  }
  return "";
}

}  // namespace

std::string disassemble(const Code& code) {
  std::string text;
  auto out = std::back_inserter(text);
  for (std::size_t i = 0; i < code.instructions.size(); ++i) {
    const Instruction& instruction = code.instructions[i];
    std::string words = argument_in_words(code, instruction);
    if (instruction.keyword_names >= 0) {
      words += " keywords " + repr(PyTuple_GET_ITEM(code.object->co_consts, instruction.keyword_names));
    }
    fmt::format_to(out, "{:4} {:4} line {:<4} {}{}{}\n", i, instruction.offset * 2,
                   PyCode_Addr2Line(code.object, instruction.offset * 2), info(instruction.opcode).name,
                   words.empty() ? "" : " ", words);
  }
  for (const ExceptionHandler& handler : code.handlers) {
    fmt::format_to(out, "     {} to {} -> {} depth {}{}\n", handler.start, handler.end, handler.target, handler.depth,
                   handler.push_lasti ? " lasti" : "");
  }
  return text;
}

}  // namespace dynrun::bytecode
