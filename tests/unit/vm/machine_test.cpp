#include "vm/machine.h"

#include "python/reference.h"

#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <vector>

namespace dynrun::vm {
namespace {

using bytecode::Instruction;
using bytecode::Opcode;
using python::Ref;

// An engine whose one observer does what a test tells it to, in machines whose base runs a function of a given name.
struct Watcher : Engine, Observer {
  std::string name = "f";
  std::function<Decision(Machine&, Activation&, const Instruction&)> decide;
  std::vector<std::string> log;
  int executed = 0, raised = 0, finished_count = 0;

  Observer* starting(Machine&, Activation& activation) override {
    return PyUnicode_AsUTF8(activation.code->object->co_name) == name ? this : nullptr;
  }
  void finished(Machine&) override { ++finished_count; }
  Decision before(Machine& machine, Activation& activation, const Instruction& instruction) override {
    return decide ? decide(machine, activation, instruction) : Decision::kExecute;
  }
  void after(Machine&, const Instruction&, bool error) override {
    ++executed;
    raised += error;
  }
  void entered(Machine&, Activation& activation) override {
    log.push_back(std::string("enter ") + PyUnicode_AsUTF8(activation.code->object->co_name));
  }
  void leaving(Machine&, Activation& activation, PyObject* result) override {
    log.push_back(std::string("leave ") + PyUnicode_AsUTF8(activation.code->object->co_name) + (result ? "" : " raising"));
  }
};

// Runs `source` under `watcher` in a fresh namespace and returns repr(result), or the exception's text.
std::string run(const char* source, Watcher* watcher) {
  if (!Py_IsInitialized()) Py_InitializeEx(0);
  static const char* const wrong = install_frame_hook();
  REQUIRE(wrong == nullptr);
  set_frame_policy(FramePolicy::kAll);
  Ref globals = Ref::steal(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  set_engine(watcher);
  Ref ran = Ref::steal(PyRun_String(source, Py_file_input, globals.get(), globals.get()));
  set_engine(nullptr);
  CHECK(current_machine() == nullptr);
  set_frame_policy(FramePolicy::kOff);
  Ref shown;
  if (ran) {
    PyObject* result = PyDict_GetItemString(globals.get(), "result");
    shown = Ref::steal(result ? PyObject_Repr(result) : PyUnicode_FromString("nothing"));
  } else {
    Ref error = Ref::steal(PyErr_GetRaisedException());
    shown = Ref::steal(PyObject_Repr(error.get()));
  }
  return PyUnicode_AsUTF8(shown.get());
}

}  // namespace

TEST_CASE("frames run in the VM") {
  auto before = counters().frames_vm;
  Watcher watcher;
  watcher.name = "nothing";
  CHECK(run("def f(n): return 1 if n == 0 else n * f(n - 1)\nresult = f(10)\n", &watcher) == "3628800");
  CHECK(counters().frames_vm - before == 12);
  CHECK(watcher.finished_count == 1);
}

TEST_CASE("an observer sees every instruction, inlined calls and returns") {
  Watcher watcher;
  CHECK(run("def g(x): return x + 1\ndef f(x): return g(x) * 2\nresult = f(3)\n", &watcher) == "8");
  CHECK(watcher.log == std::vector<std::string>{"enter g", "leave g", "leave f", "leave <module>"});
  // f: RESUME LOAD_GLOBAL LOAD_FAST CALL, g: five, f: LOAD_CONST BINARY_OP RETURN_VALUE; then the module goes on.
  CHECK(watcher.executed >= 12);
}

TEST_CASE("an observer sees raised errors") {
  Watcher watcher;
  CHECK(run("def g(x): raise KeyError(x)\n"
            "def f(x):\n"
            "    try:\n"
            "        return g(x)\n"
            "    except KeyError as e:\n"
            "        return e.args\n"
            "result = f(3)\n",
            &watcher) == "(3,)");
  CHECK(watcher.raised == 1);
  CHECK(watcher.log == std::vector<std::string>{"enter g", "leave g raising", "leave f", "leave <module>"});
}

TEST_CASE("kResume: the observer does the work itself") {
  Watcher watcher;
  watcher.decide = [](Machine&, Activation& activation, const Instruction& instruction) {
    if (instruction.opcode != Opcode::kBinaryOp) return Decision::kExecute;
    Py_DECREF(activation.pop());
    Py_DECREF(activation.pop());
    activation.push(PyLong_FromLong(42));
    ++activation.pc;
    return Decision::kResume;
  };
  CHECK(run("def f(x): return x + x\nresult = f(3)\n", &watcher) == "42");
}

TEST_CASE("push_call runs a property inline and gives its truth") {
  Watcher watcher;
  watcher.decide = [](Machine& machine, Activation& activation, const Instruction& instruction) {
    if (instruction.opcode != Opcode::kLoadAttr) return Decision::kExecute;
    PyObject* getter = PyDict_GetItemString(activation.frame->globals, "getter");
    PyObject* argument = activation.pop();
    ++activation.pc;
    return machine.push_call(getter, &argument, 1, nullptr, Continuation::kPushNotTruth) ? Decision::kResume : Decision::kRaise;
  };
  CHECK(run("def getter(self): return [self]\ndef f(x): return (x.a, 1)\nresult = f(3)\n", &watcher) == "(False, 1)");
}

TEST_CASE("push_call reports binding errors as CPython words them") {
  Watcher watcher;
  CHECK(
      run("def g(a, *, k): pass\n"
          "def f():\n"
          "    out = []\n"
          "    for call in (lambda: g(), lambda: g(1, 2, k=3), lambda: g(1), lambda: g(1, k=2, z=3), lambda: g(1, a=1, k=2)):\n"
          "        try: call()\n"
          "        except TypeError as e: out.append(str(e))\n"
          "    return out\n"
          "result = f()\n",
          &watcher) ==
      "[\"g() missing 1 required positional argument: 'a'\", "
      "'g() takes 1 positional argument but 2 positional arguments (and 1 keyword-only argument) were given', "
      "\"g() missing 1 required keyword-only argument: 'k'\", \"g() got an unexpected keyword argument 'z'\", "
      "\"g() got multiple values for argument 'a'\"]");
}

TEST_CASE("an __init__ run inline must return None") {
  Watcher watcher;
  watcher.decide = [](Machine& machine, Activation& activation, const Instruction& instruction) {
    if (instruction.opcode != Opcode::kUnaryNegative) return Decision::kExecute;
    PyObject* init = PyDict_GetItemString(activation.frame->globals, "init");
    PyObject* argument = activation.pop();
    ++activation.pc;
    PyObject* held = Py_NewRef(argument);
    return machine.push_call(init, &argument, 1, nullptr, Continuation::kDropPushHeld, held) ? Decision::kResume
                                                                                             : Decision::kRaise;
  };
  CHECK(run("def init(self): return None\ndef f(x): return -x\nresult = f(3)\n", &watcher) == "3");
  CHECK(run("def init(self): return 1\ndef f(x): return -x\nresult = f(3)\n", &watcher) ==
        "TypeError(\"__init__() should return None, not 'int'\")");
}

TEST_CASE("kReturn ends the base with the observer's result, whatever was pushed") {
  Watcher watcher;
  watcher.decide = [](Machine& machine, Activation& activation, const Instruction& instruction) {
    if (instruction.opcode != Opcode::kBinaryOp) return Decision::kExecute;
    CHECK(&activation != machine.base);
    machine.result = PyUnicode_FromString("early");
    return Decision::kReturn;
  };
  CHECK(run("def g(x): return [x, x + x]\ndef f(x): return (x, g(x))\nresult = next(map(f, [[]]))\n", &watcher) == "'early'");
}

TEST_CASE("kHandOver gives the top frame to CPython, its caller goes on") {
  for (int target : {0, 1, 2, 3, 4}) {
    Watcher watcher;
    watcher.decide = [&](Machine&, Activation& activation, const Instruction&) {
      bool here = PyUnicode_CompareWithASCIIString(activation.code->object->co_name, "g") == 0 && activation.pc == target;
      return here ? Decision::kHandOver : Decision::kExecute;
    };
    auto before = counters().handed_over;
    CHECK(run("def g(x): return x + 1\ndef f(x): return g(x) * 2\nresult = f(3)\n", &watcher) == "8");
    CHECK(counters().handed_over - before == (target < 4 ? 1 : counters().handed_over - before));
  }
}

TEST_CASE("kRaise unwinds from the instruction") {
  Watcher watcher;
  watcher.decide = [](Machine&, Activation&, const Instruction& instruction) {
    if (instruction.opcode != Opcode::kBinaryOp) return Decision::kExecute;
    PyErr_SetString(PyExc_RuntimeError, "told so");
    return Decision::kRaise;
  };
  CHECK(run("def f(x):\n"
            "    try:\n"
            "        return x + x\n"
            "    except RuntimeError as e:\n"
            "        return str(e), e.__traceback__.tb_lineno\n"
            "result = f(3)\n",
            &watcher) == "('told so', 3)");
}

TEST_CASE("push_frame rebuilds a frame in the middle of a function") {
  Watcher watcher;
  watcher.decide = [](Machine& machine, Activation& activation, const Instruction& instruction) {
    if (instruction.opcode != Opcode::kUnaryNegative) return Decision::kExecute;
    // As if g(x) had run up to its BINARY_OP.
    PyObject* g = PyDict_GetItemString(activation.frame->globals, "g");
    PyObject* argument = activation.pop();
    ++activation.pc;
    Activation* rebuilt = machine.push_frame(g, Continuation::kPushResult);
    if (!rebuilt) return Decision::kRaise;
    rebuilt->locals()[0] = argument;
    while (rebuilt->code->instructions[rebuilt->pc].opcode != Opcode::kBinaryOp) ++rebuilt->pc;
    rebuilt->push(Py_NewRef(argument));
    rebuilt->push(PyLong_FromLong(100));
    machine.observer = nullptr;  // run on at full speed
    return Decision::kResume;
  };
  CHECK(run("def g(x):\n"
            "    return x + 1\n"
            "def f(x): return (-x, 1)\n"
            "result = f(3)\n",
            &watcher) == "(103, 1)");
}

TEST_CASE("drop_top takes a frame back") {
  Watcher watcher;
  watcher.decide = [](Machine& machine, Activation& activation, const Instruction& instruction) {
    if (instruction.opcode != Opcode::kBinaryOp) return Decision::kExecute;
    CHECK(activation.caller != nullptr);
    machine.drop_top();
    machine.top->push(PyUnicode_FromString("dropped"));
    return Decision::kResume;
  };
  CHECK(run("def g(x): return x + 1\ndef f(x): return [g(x)]\nresult = f(3)\n", &watcher) == "['dropped']");
}

TEST_CASE("every boundary handed to CPython once gives the same result") {
  Watcher watcher;
  watcher.name = "nothing";
  const char* source =
      "def gen(n):\n"
      "    for i in range(n):\n"
      "        try:\n"
      "            got = yield i\n"
      "            if got: yield got * 10\n"
      "        finally:\n"
      "            log.append(i)\n"
      "def f(n):\n"
      "    total = 0\n"
      "    it = gen(n)\n"
      "    for i in it:\n"
      "        total += i + (it.send(2) or 0)\n"
      "    try:\n"
      "        [].pop()\n"
      "    except IndexError as e:\n"
      "        total += len(str(e))\n"
      "    return total, log, f'{total!r:>5}', {**{'a': 1}, 'b': 2}, [*range(3)]\n"
      "log = []\n"
      "for i in range(200): log = []; result = f(3)\n";
  std::string expected = run(source, &watcher);
  set_hand_over_stress(true);
  auto before = counters().handed_over;
  CHECK(run(source, &watcher) == expected);
  CHECK(counters().handed_over - before > 50);
  set_hand_over_stress(false);
}

TEST_CASE("deep recursion in the VM uses no C stack") {
  Watcher watcher;
  watcher.name = "nothing";
  CHECK(run("def f(n): return 0 if n == 0 else 1 + f(n - 1)\nresult = f(950)\n", &watcher) == "950");
  CHECK(run("import sys\n"
            "def f(n): return 0 if n == 0 else 1 + f(n - 1)\n"
            "sys.setrecursionlimit(200000)\n"
            "result = f(150000)\n"
            "sys.setrecursionlimit(1000)\n",
            &watcher) == "150000");
  CHECK(run("def f(n): return f(n + 1)\n"
            "try: f(0)\n"
            "except RecursionError as e: result = str(e)\n",
            &watcher) == "'maximum recursion depth exceeded'");
}

}  // namespace dynrun::vm
