// What the VM remembers between runs of an instruction: each program changes the world under a warm cache, and its result must
// be CPython's.

#include "python/reference.h"
#include "vm/machine.h"

#include <catch2/catch.hpp>

#include <string>

namespace dynrun::vm {
namespace {

using python::Ref;

std::string run(const std::string& source, FramePolicy policy, Engine* engine = nullptr) {
  if (!Py_IsInitialized()) Py_InitializeEx(0);
  static const char* const wrong = install_frame_hook();
  REQUIRE(wrong == nullptr);
  Ref globals = Ref::steal(PyDict_New());
  PyDict_SetItemString(globals.get(), "__builtins__", PyEval_GetBuiltins());
  set_engine(engine);
  set_frame_policy(policy);
  Ref ran = Ref::steal(PyRun_String(source.c_str(), Py_file_input, globals.get(), globals.get()));
  set_frame_policy(FramePolicy::kOff);
  set_engine(nullptr);
  PyObject* result = ran ? PyDict_GetItemString(globals.get(), "out") : nullptr;
  Ref shown = Ref::steal(ran ? PyObject_Repr(result) : PyObject_Repr(Ref::steal(PyErr_GetRaisedException()).get()));
  return PyUnicode_AsUTF8(shown.get());
}

// `body` runs many times, with `i` counting; what `read()` gives each time is compared.
std::string looped(const std::string& set_up, const std::string& body) {
  return "out = []\n" + set_up +
         "\ndef tell():\n    try: out.append(read())\n    except Exception as e: out.append((type(e).__name__, str(e)))\n"
         "for i in range(40):\n    tell()\n    tell()\n    if i % 5 == 4:\n" +
         body + "\n";
}

void same(const std::string& source) {
  std::string expected = run(source, FramePolicy::kOff);
  CHECK(run(source, FramePolicy::kAll) == expected);
  CHECK(expected.find("out") == std::string::npos);
}

constexpr const char* kClass =
    "class B:\n    c = 1\n    def m(self): return 'B.m'\n"
    "class A(B):\n    def __init__(self): self.x = 1\n"
    "a = A()\n";

}  // namespace

TEST_CASE("attributes of instances and classes that change") {
  std::string set_up = std::string(kClass) + "def read(): return a.x, a.c, a.m(), A.c, getattr(a, 'y', 0)\n";
  same(looped(set_up, "        B.c += 1\n"));
  same(looped(set_up, "        a.c = i\n"));
  same(looped(set_up, "        a.c = i\n        if i == 19: del a.c\n"));
  same(looped(set_up, "        a.m = lambda: i\n"));
  same(looped(set_up, "        A.m = lambda self: i\n"));
  same(looped(
      set_up,
      "        if i == 9: a.__dict__\n        if i == 19: a.__dict__ = {'x': 7, 'c': 8}\n        if i == 29: del a.x\n"));
  same(looped(set_up, "        A.x = property(lambda self: i)\n"));
  same(looped(set_up,
              "        A.__getattribute__ = lambda self, name: len(name)\n        if i == 29: del A.__getattribute__\n"));
  same(looped(set_up, "        A.__getattr__ = lambda self, name: name\n        if i > 9: a.__dict__.pop('x', 0)\n"));
  same(looped(set_up, "        a = [A(), B(), 3][i % 3]\n        if i % 2: a = A()\n"));
  same(looped(set_up, "        for k in range(40): setattr(a, f'k{k}_{i}', k)\n"));
  same(looped(set_up, "        a.__class__ = B if i % 2 else A\n"));
}

TEST_CASE("stores into instances, slots and dicts") {
  std::string set_up =
      std::string(kClass) + "def read():\n    a.z = out and len(out)\n    b = A()\n    b.x = 5\n    return a.z, b.__dict__\n";
  same(looped(set_up, "        A.z = property(lambda self: 0, lambda self, value: out.append(value))\n"));
  same(looped(set_up, "        A.__setattr__ = lambda self, name, value: None\n        if i == 29: del A.__setattr__\n"));
  same(looped(set_up, "        a.__dict__['q'] = i\n"));
  std::string slots =
      "class A:\n    __slots__ = ('x',)\na = A()\n"
      "def read():\n    if len(out) % 3: a.x = len(out)\n    return a.x\n";
  same(looped(slots, "        if hasattr(a, 'x'): del a.x\n"));
  same(looped(slots, "        A.x = 3\n"));
}

TEST_CASE("globals, builtins and modules") {
  std::string set_up = "import math\ng = 1\ndef read(): return g, len((1, 2)), math.floor(2.5)\n";
  same(looped(set_up, "        g += 1\n"));
  same(looped(set_up, "        globals()['len'] = lambda t: 'mine'\n        if i % 2: del len\n"));
  same(looped(set_up, "        if i == 14: del g\n        if i == 24: g = 'back'\n"));
  same(looped(set_up, "        for k in range(50): globals()[f'v{i}_{k}'] = k\n"));
  same(looped("import math\ndef read(): return math.extra\n", "        math.extra = i\n        if i > 20: del math.extra\n") +
       "math.__dict__.pop('extra', 0)\n");
}

TEST_CASE("properties and super") {
  std::string set_up =
      "class B:\n    def f(self): return 'B'\n    v = 1\n    @classmethod\n    def k(cls): return cls.__name__\n"
      "class M(B):\n    pass\n"
      "class A(M):\n    def f(self): return 'A' + super().f() + str(super().v) + super().k()\n"
      "    @property\n    def p(self): return self.f()\n"
      "a = A()\ndef read(): return a.p\n";
  same(looped(set_up, "        B.v += 1\n"));
  same(looped(set_up, "        M.f = lambda self: 'M'\n"));
  same(looped(set_up, "        A.p = property(lambda self: 1 // (i % 2))\n"));
  same(looped(set_up, "        del B.v\n        if i > 9: B.v = property(lambda self: type(self))\n"));
}

TEST_CASE("generators and coroutines that resume inside the machine") {
  same(
      "def g(n):\n    try:\n        for i in range(n): x = yield i\n    finally: out.append('end')\n    return 'done'\n"
      "def h(n):\n    r = yield from g(n)\n    out.append(r)\n    raise KeyError(n)\n"
      "out = []\n"
      "try:\n    for v in h(3): out.append(v)\nexcept KeyError as e: out.append(e.__traceback__.tb_next.tb_lineno)\n"
      "for v in g(5):\n    if v == 2: break\n");
  same(
      "import sys\nout = []\ndef g():\n    try: raise ValueError\n    except ValueError:\n        yield sys.exc_info()[0]\n"
      "    yield sys.exc_info()[0]\n"
      "try: 1 / 0\nexcept ZeroDivisionError:\n    for v in g(): out.append((v, sys.exc_info()[0]))\n");
  same(
      "class S(Exception): pass\nasync def f(n): return n * 2\nasync def m():\n    t = 0\n    for i in range(5): t += await "
      "f(i)\n"
      "    raise S(t)\nout = 0\ntry: m().send(None)\nexcept S as e: out = e.args\n");
  same(
      "def g():\n    yield 1\n    raise StopIteration(5)\nout = []\ntry:\n    for v in g(): out.append(v)\n"
      "except RuntimeError as e: out.append(str(e))\n");
  same("def g(): yield from it\nit = g()\nout = []\ntry:\n    for v in it: pass\nexcept ValueError as e: out.append(str(e))\n");
  same(
      "import sys\ndef g(n):\n    if n: yield from g(n - 1)\n    yield n\n"
      "def f(n):\n    for v in g(n): pass\n    return v\nout = [f(300)]\n"
      "try: f(100000)\nexcept RecursionError: out.append('deep')\n");
}

TEST_CASE("an observer that comes in a call from a generator goes at the generator") {
  struct Visitor : Engine, Observer {
    int came = 0, let_go = 0, yields = 0;
    Observer* starting(Machine&, Activation& activation) override {
      if (std::string(PyUnicode_AsUTF8(activation.code->object->co_name)) != "f") return nullptr;
      ++came;
      return this;
    }
    void finished(Machine&) override { ++let_go; }
    Decision before(Machine&, Activation&, const bytecode::Instruction& instruction) override {
      yields += instruction.opcode == bytecode::Opcode::kYieldValue;
      return Decision::kExecute;
    }
    void after(Machine&, const bytecode::Instruction&, bool) override {}
    void entered(Machine&, Activation&) override {}
    void leaving(Machine&, Activation&, PyObject*) override {}
  } visitor;
  std::string source =
      "def f(x): return x + 1\ndef g():\n    for i in range(4): yield f(i)\nout = []\nfor v in g(): out.append(v)\n";
  CHECK(run(source, FramePolicy::kAll, &visitor) == "[1, 2, 3, 4]");
  CHECK(visitor.came == 4);
  CHECK(visitor.let_go == 5);  // at the generator, and at the machine's end
  CHECK(visitor.yields == 0);
}

}  // namespace dynrun::vm
