#include "bytecode/code.h"
#include "python/reference.h"

#include <catch2/catch.hpp>

#include <string>

namespace dynrun::bytecode {
namespace {

using python::Ref;

// The code object of the function that `source` defines as `f`.
Ref function_code(const char* source) {
  if (!Py_IsInitialized()) Py_InitializeEx(0);
  Ref globals = Ref::steal(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  Ref ran = Ref::steal(PyRun_String(source, Py_file_input, globals.get(), globals.get()));
  REQUIRE(ran);
  PyObject* function = PyDict_GetItemString(globals.get(), "f");
  REQUIRE(function);
  return Ref::borrow(PyFunction_GetCode(function));
}

const Code& decoded(const Ref& code) {
  return *decode(reinterpret_cast<PyCodeObject*>(code.get()));
}

}  // namespace

TEST_CASE("disassembly of a loop with a keyword call") {
  Ref code = function_code("def f(a, b):\n    for x in a:\n        g(x, y=b)\n    return b\n");
  CHECK(disassemble(decoded(code)) ==
        "   0    0 line 1    RESUME 0\n"
        "   1    2 line 2    LOAD_FAST a\n"
        "   2    4 line 2    GET_ITER\n"
        "   3    6 line 2    FOR_ITER to 11\n"
        "   4   10 line 2    STORE_FAST x\n"
        "   5   12 line 3    LOAD_GLOBAL g + null or self\n"
        "   6   22 line 3    LOAD_FAST x\n"
        "   7   24 line 3    LOAD_FAST b\n"
        "   8   28 line 3    CALL 2 keywords ('y',)\n"
        "   9   36 line 3    POP_TOP\n"
        "  10   38 line 3    JUMP_BACKWARD to 3\n"
        "  11   40 line 2    END_FOR\n"
        "  12   42 line 4    LOAD_FAST b\n"
        "  13   44 line 4    RETURN_VALUE\n");
  CHECK(decoded(code).has_backward_jump);
  CHECK(decoded(code).supported);
}

TEST_CASE("KW_NAMES is one instruction with its CALL, caches are none") {
  Ref code = function_code("def f(b):\n    return g(b, y=b)\n");
  const Code& result = decoded(code);
  const Instruction* call = nullptr;
  for (const Instruction& instruction : result.instructions) {
    if (instruction.opcode == Opcode::kCall) call = &instruction;
  }
  REQUIRE(call);
  CHECK(call->first_offset == call->offset - 1);
  CHECK(call->next_offset == call->offset + 4);
  int index = static_cast<int>(call - result.instructions.data());
  CHECK(result.index_at[call->first_offset] == index);
  CHECK(result.index_at[call->offset] == index);
  CHECK(result.index_at[call->offset + 1] == -1);
}

TEST_CASE("EXTENDED_ARG is folded into its instruction") {
  std::string source = "def f():\n";
  for (int i = 0; i < 300; ++i) source += "    x = " + std::to_string(1000 + i) + "\n";
  Ref code = function_code(source.c_str());
  const Code& result = decoded(code);
  bool found = false;
  for (const Instruction& instruction : result.instructions) {
    if (instruction.opcode != Opcode::kLoadConst || instruction.argument < 256) continue;
    found = true;
    CHECK(instruction.first_offset == instruction.offset - 1);
    CHECK(PyLong_AsLong(PyTuple_GET_ITEM(result.object->co_consts, instruction.argument)) == 999 + instruction.argument);
  }
  CHECK(found);
}

TEST_CASE("specialised code decodes as it was compiled") {
  Ref code = function_code(
      "def f(a):\n    s = 0\n    for x in a:\n        s = s + x\n    return s\nfor i in range(100): f([1, 2, 3])\n");
  for (const Instruction& instruction : decoded(code).instructions) CHECK(instruction.next_offset > instruction.offset);
  CHECK(decoded(code).supported);
  CHECK(&decoded(code) == &decoded(code));
}

TEST_CASE("the exception table in instruction indices") {
  Ref code = function_code("def f():\n    try:\n        g()\n    except ValueError:\n        return 1\n");
  const Code& result = decoded(code);
  REQUIRE(result.handlers.size() >= 2);
  const ExceptionHandler& handler = result.handlers[0];
  CHECK(handler.start < handler.end);
  CHECK(handler.depth == 0);
  CHECK(result.instructions[handler.target].opcode == Opcode::kPushExcInfo);
  CHECK(result.handlers[1].push_lasti);
}

}  // namespace dynrun::bytecode
