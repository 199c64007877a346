#include "guards/program.h"

#include "guards/torch_python.h"
#include "interpreter.h"

#include <cstdlib>
#include <cstring>
#include <vector>

namespace dynrun::guards {
namespace {

using python::Ref;
using test::Namespace;

// A frame of one function with locals, as far as guards look at frames.
class FakeFrame {
 public:
  explicit FakeFrame(std::vector<PyObject*> locals, PyObject* function = nullptr)
      : memory_(static_cast<python::Frame*>(std::calloc(1, sizeof(python::Frame) + sizeof(PyObject*) * (locals.size() + 1)))) {
    memory_->function = function;
    for (std::size_t i = 0; i < locals.size(); i++) memory_->localsplus[i] = locals[i];
  }
  ~FakeFrame() { std::free(memory_); }
  FakeFrame(const FakeFrame&) = delete;
  FakeFrame& operator=(const FakeFrame&) = delete;
  std::vector<EntryFrame> entry() const { return {{memory_, memory_->localsplus}}; }

 private:
  python::Frame* memory_;
};

Ref name(const char* text) {
  return Ref::steal(PyUnicode_InternFromString(text));
}

SourceId local(Program& program, int slot, const char* text) {
  return program.read(SourceKind::kLocal, 0, slot, name(text).get());
}

bool holds(const Program& program, const std::vector<PyObject*>& locals, PyObject* function = nullptr) {
  FakeFrame frame(locals, function);
  std::vector<PyObject*> registers;
  return program.run(frame.entry(), registers);
}

// "guard: was W, is N"
std::string miss(const Program& program, const std::vector<PyObject*>& locals) {
  FakeFrame frame(locals);
  Miss found = program.explain_miss(frame.entry());
  return found.guard + ": was " + found.was + ", is " + found.now;
}

}  // namespace

TEST_CASE("constants are guarded by type and value") {
  Namespace python;
  for (auto [value, same, other] : std::vector<std::array<const char*, 3>>{{"1", "int('1')", "True"},
                                                                           {"1.5", "3.0 / 2", "1"},
                                                                           {"0.0", "-(-0.0)", "-0.0"},
                                                                           {"float('nan')", "float('nan')", "0.0"},
                                                                           {"'ab'", "'a' + chr(98)", "'ac'"},
                                                                           {"10 ** 30", "10 ** 15 * 10 ** 15", "10 ** 30 + 1"},
                                                                           {"1j", "complex(0, 1)", "complex(-0.0, 1)"},
                                                                           {"True", "not False", "1"}}) {
    Program program;
    program.check_equals(local(program, 0, "x"), python.eval(value).get());
    INFO(value);
    CHECK(holds(program, {python.eval(same).get()}));
    CHECK_FALSE(holds(program, {python.eval(other).get()}));
    CHECK_FALSE(holds(program, {nullptr}));
  }
}

TEST_CASE("a path is read once, and guards print as people write paths") {
  Namespace python("class Model:\n  pass\nmodel = Model()\nmodel.layers = [1, {'scale': 2.0}]\n");
  Ref model = python.eval("model");
  Program program;
  SourceId root = local(program, 0, "model");
  program.check_type(root, Py_TYPE(model.get()));
  SourceId dict = program.read(SourceKind::kInstanceDict, root, 0, nullptr);
  SourceId layers = program.read(SourceKind::kDictItem, dict, 0, name("layers").get());
  CHECK(program.read(SourceKind::kDictItem, dict, 0, name("layers").get()) == layers);
  program.check_length(layers, 2);
  SourceId config = program.read(SourceKind::kSequenceItem, layers, 1, nullptr);
  program.check_keys(config, python.eval("model.layers[1]").get());
  program.check_equals(program.read(SourceKind::kDictItem, config, 0, name("scale").get()), python.eval("2.0").get());
  program.check_absent(config, name("bias").get());
  CHECK(program.print() ==
        "model: type Model\n"
        "model.layers: length 2\n"
        "model.layers[1]: keys a tuple\n"
        "model.layers[1]['scale']: equals 2.0\n"
        "model.layers[1]: absent 'bias'\n");
  CHECK(holds(program, {model.get()}));

  python.run("model.layers[1]['scale'] = 3.0");
  CHECK_FALSE(holds(program, {model.get()}));
  CHECK(miss(program, {model.get()}) == "model.layers[1]['scale']: was 2.0, is 3.0");
  python.run("model.layers[1]['scale'] = 2.0");
  CHECK(holds(program, {model.get()}));

  python.run("model.layers[1]['bias'] = 1");
  CHECK_FALSE(holds(program, {model.get()}));
  python.run("del model.layers[1]['bias']; model.layers.append(3)");
  CHECK(miss(program, {model.get()}) == "model.layers: was 2 items, is 3 items");
  python.run("model.layers = [0, dict(scale=2.0)]");  // new objects that hold the same
  CHECK(holds(program, {model.get()}));
  python.run("del model.layers");
  CHECK_FALSE(holds(program, {model.get()}));
  CHECK_FALSE(holds(program, {python.eval("1").get()}));
}

TEST_CASE("what was looked up on a class is guarded with it, and nothing else of it") {
  Namespace python("class Base:\n  def f(self): return 1\nclass C(Base): pass\nc = C()\nold = Base.f\n");
  Ref object = python.eval("c"), function = python.eval("old");
  Program program;
  program.check_type(local(program, 0, "c"), Py_TYPE(object.get()));
  program.note_type_lookup(Py_TYPE(object.get()), name("f").get(), function.get());
  program.note_type_lookup(Py_TYPE(object.get()), name("g").get(), nullptr);
  CHECK(holds(program, {object.get()}));
  python.run("C.unrelated = 1");
  CHECK(holds(program, {object.get()}));
  python.run("C.f = lambda self: 2");
  CHECK_FALSE(holds(program, {object.get()}));
  CHECK(miss(program, {object.get()}) == "c: was a C, is a C whose class was changed");
  python.run("del C.f");
  CHECK(holds(program, {object.get()}));
  python.run("Base.g = 1");
  CHECK_FALSE(holds(program, {object.get()}));
  python.run("del Base.g");
  CHECK(holds(program, {object.get()}));
  CHECK_FALSE(holds(program, {python.eval("Base()").get()}));
}

TEST_CASE("a strict class may not change at all; guards of a class that died are dead") {
  Namespace python("class C: pass\n");
  Program program;
  {
    Ref type = python.eval("C"), object = python.eval("C()");
    program.check_type(local(program, 0, "c"), Py_TYPE(object.get()));
    CHECK(holds(program, {object.get()}));
    CHECK(program.alive());
  }
  python.run("del C\nimport gc\ngc.collect()");
  CHECK_FALSE(program.alive());

  Namespace other("class C: pass\n");
  Program strict;
  Ref object = other.eval("C()");
  strict.check_type(local(strict, 0, "c"), Py_TYPE(object.get()));
  strict.require_unchanged(Py_TYPE(object.get()));
  CHECK(holds(strict, {object.get()}));
  other.run("C.anything = 1");
  CHECK_FALSE(holds(strict, {object.get()}));
}

TEST_CASE("functions are guarded by their code, cells and defaults by what they hold") {
  Namespace python(
      "def make(n):\n  def f(x, k=3, *, flag=True): return x + n\n  return f\n"
      "def other(x): pass\n"
      "f, g, h = make(1), make(1), make(2)\n");
  Ref f = python.eval("f");
  Program program;
  SourceId function = program.read(SourceKind::kFrameFunction, 0, 0, nullptr);
  program.check_code(function, f.get());
  SourceId cell = program.read(SourceKind::kFunctionClosure, function, 0, nullptr);
  program.check_equals(program.read(SourceKind::kCellContents, cell, 0, nullptr), python.eval("1").get());
  SourceId defaults = program.read(SourceKind::kFunctionDefaults, function, 0, nullptr);
  program.check_equals(program.read(SourceKind::kSequenceItem, defaults, 0, nullptr), python.eval("3").get());
  SourceId keywords = program.read(SourceKind::kFunctionKeywordDefaults, function, 0, nullptr);
  program.check_is(program.read(SourceKind::kDictItem, keywords, 0, name("flag").get()), Py_True);
  CHECK(holds(program, {}, f.get()));
  CHECK(holds(program, {}, python.eval("g").get()));
  CHECK_FALSE(holds(program, {}, python.eval("h").get()));
  CHECK_FALSE(holds(program, {}, python.eval("other").get()));
  python.run("f.__defaults__ = (4,)");
  CHECK_FALSE(holds(program, {}, f.get()));
  python.run("f.__defaults__ = (3,); f.__kwdefaults__['flag'] = False");
  CHECK_FALSE(holds(program, {}, f.get()));
}

TEST_CASE("identity between paths, empty slots, attributes that are not there, sets") {
  Namespace python("class C: pass\na, b = [], []\nc = C()\nnumbers = {1, 'a'}\n");
  Ref a = python.eval("a"), b = python.eval("b"), c = python.eval("c"), numbers = python.eval("numbers");
  Program same, different, empty, absent, items;
  same.check_same(local(same, 0, "p"), local(same, 1, "q"), true);
  different.check_same(local(different, 0, "p"), local(different, 1, "q"), false);
  CHECK(holds(same, {a.get(), a.get()}));
  CHECK_FALSE(holds(same, {a.get(), b.get()}));
  CHECK(miss(same, {a.get(), b.get()}) == "p: was the same object as q, is a list");
  CHECK(holds(different, {a.get(), b.get()}));
  CHECK_FALSE(holds(different, {a.get(), a.get()}));
  CHECK(different.print() == "p: not same q\n");

  empty.check_null(local(empty, 0, "unbound"));
  CHECK(holds(empty, {nullptr}));
  CHECK_FALSE(holds(empty, {a.get()}));

  absent.check_no_instance_attribute(local(absent, 0, "c"), name("forward").get());
  CHECK(holds(absent, {c.get()}));
  CHECK(holds(absent, {a.get()}));  // no dict at all
  python.run("c.forward = 1");
  CHECK_FALSE(holds(absent, {c.get()}));

  items.check_set(local(items, 0, "numbers"), numbers.get());
  CHECK(holds(items, {python.eval("{'a', 1}").get()}));
  CHECK_FALSE(holds(items, {python.eval("{'a'}").get()}));
}

TEST_CASE("properties, slots, methods, super() and class attributes are read again") {
  Namespace python(
      "class A:\n  def f(self): pass\n"
      "class B(A):\n"
      "  __slots__ = ('slot',)\n"
      "  def f(self): pass\n"
      "  @property\n  def p(self): pass\n"
      "  @staticmethod\n  def s(): pass\n"
      "b = B()\nb.slot = 5\nmethod = b.f\n");
  Ref object = python.eval("b"), type = python.eval("B"), method = python.eval("method");
  Program program;
  SourceId root = local(program, 0, "b"), bound = local(program, 1, "m");
  SourceId type_of = program.read(SourceKind::kTypeOf, root, 0, nullptr);
  program.check_is_type(type_of, reinterpret_cast<PyTypeObject*>(type.get()));
  SourceId property = program.read(SourceKind::kTypeAttribute, type_of, 0, name("p").get());
  program.check_code(program.read(SourceKind::kPropertyGetter, property, 0, nullptr), python.eval("B.p.fget").get());
  SourceId wrapped = program.read(SourceKind::kTypeAttribute, type_of, 0, name("s").get());
  program.check_code(program.read(SourceKind::kWrapped, wrapped, 0, nullptr), python.eval("B.s").get());
  program.check_code(program.read(SourceKind::kSuperAttribute, type_of, 0, name("f").get(), type.get()),
                     python.eval("A.f").get());
  program.check_equals(program.read(SourceKind::kMember, root, 0, name("slot").get(), python.eval("B.__dict__['slot']").get()),
                       python.eval("5").get());
  program.check_code(program.read(SourceKind::kMethodFunction, bound, 0, nullptr), python.eval("B.f").get());
  program.check_same(program.read(SourceKind::kMethodSelf, bound, 0, nullptr), root, true);
  CHECK(program.print() ==
        "type(b): is type B\n"
        "type(b).p.fget: code the function B.p\n"
        "type(b).s.__func__: code the function B.s\n"
        "super().f: code the function A.f\n"
        "b.slot: equals 5\n"
        "m.__func__: code the function B.f\n"
        "m.__self__: same b\n");
  CHECK(holds(program, {object.get(), method.get()}));
  python.run("b.slot = 6");
  CHECK_FALSE(holds(program, {object.get(), method.get()}));
  python.run("b.slot = 5; kept = A.f; A.f = lambda self: 0");
  CHECK_FALSE(holds(program, {object.get(), method.get()}));
  python.run("A.f = kept");
  CHECK(holds(program, {object.get(), method.get()}));
}

TEST_CASE("what is cut off is read again when it is asked for again") {
  Namespace python("d = {'k': 1}\n");
  Ref dict = python.eval("d");
  Program program;
  SourceId root = local(program, 0, "d");
  std::size_t mark = program.size();
  program.check_equals(program.read(SourceKind::kDictItem, root, 0, name("k").get()), python.eval("2").get());
  CHECK_FALSE(holds(program, {dict.get()}));
  program.truncate(mark);
  CHECK(holds(program, {dict.get()}));
  program.check_equals(program.read(SourceKind::kDictItem, root, 0, name("k").get()), python.eval("1").get());
  CHECK(holds(program, {dict.get()}));
  CHECK(program.print() == "d['k']: equals 1\n");
}

TEST_CASE("what is asked twice is asked once, and still asked") {
  Namespace python("x, numbers = 'a', {1, 'a'}\nmore, fewer = numbers | {2}, {1, 'b'}\n");
  Ref x = python.eval("x"), numbers = python.eval("numbers");
  Program program;
  const SourceId text = local(program, 0, "text"), set = local(program, 1, "numbers"), other = local(program, 2, "other");
  for (int turn = 0; turn < 3; turn++) {
    program.check_equals(text, x.get());
    program.check_set(set, numbers.get());
    program.check_same(set, other, true);
  }
  program.check_set(set, python.eval("{1, 'a', 2} - {2}").get());
  program.check_set(other, numbers.get());
  const std::size_t before = program.size();
  program.drop_repeated();
  CHECK(before - program.size() == 7);
  CHECK(holds(program, {x.get(), numbers.get(), numbers.get()}));
  CHECK_FALSE(holds(program, {python.eval("'b'").get(), numbers.get(), numbers.get()}));
  for (const char* set : {"more", "fewer"}) CHECK_FALSE(holds(program, {x.get(), python.eval(set).get(), python.eval(set).get()}));
  CHECK_FALSE(holds(program, {x.get(), numbers.get(), python.eval("set(numbers)").get()}));
}

TEST_CASE("tensors are guarded by what their type is, not by their contents") {
  test::start_torch();
  Namespace python("import torch\n");
  auto tensor = [&](const char* expression) { return python.eval(expression); };
  Ref one = tensor("torch.ones(2, 3)");
  Program program;
  program.check_tensor(local(program, 0, "x"), tensor_of(one.get()));
  CHECK(program.print() == "x: tensor Float[2, 3] strides [3, 1] on cpu\n");
  CHECK(holds(program, {tensor("torch.zeros(2, 3)").get()}));
  for (const char* other : {"torch.ones(2, 3, dtype=torch.float64)", "torch.ones(3, 2)", "torch.ones(3, 2).t()",
                            "torch.ones(2, 3, requires_grad=True)", "torch.ones(2, 3, device='meta')",
                            "torch.ones(2, 3).to_sparse()", "torch.nn.Parameter(torch.ones(2, 3))", "[1]"}) {
    INFO(other);
    CHECK_FALSE(holds(program, {tensor(other).get()}));
  }
  CHECK(miss(program, {tensor("torch.ones(3, 2).t()").get()}) ==
        "x: was Float[2, 3] strides [3, 1] on cpu, is Float[2, 3] strides [1, 2] on cpu");
}

TEST_CASE("guards keep no model alive") {
  Namespace python("import weakref\nclass C: pass\nc = C()\nc.items = [1]\nwatch = weakref.ref(c)\n");
  Program program;
  {
    Ref object = python.eval("c");
    SourceId root = local(program, 0, "c");
    program.check_type(root, Py_TYPE(object.get()));
    SourceId dict = program.read(SourceKind::kInstanceDict, root, 0, nullptr);
    program.check_length(program.read(SourceKind::kDictItem, dict, 0, name("items").get()), 1);
    CHECK(holds(program, {object.get()}));
  }
  python.run("del c");
  CHECK(python.text("watch()") == "None");
}

}  // namespace dynrun::guards
