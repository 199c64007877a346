#include "trace/recipe.h"

#include "interpreter.h"

#include <string>
#include <vector>

namespace dynrun::trace {
namespace {

using python::Ref;
using test::checked;
using test::Namespace;

// Builds recipes by hand and shows what a kitchen makes of them.
struct Book {
  RecipeBook book;
  std::vector<PyObject*> sources;
  std::vector<at::Tensor> outputs;
  std::vector<Ref> hosts;

  Kitchen kitchen() { return Kitchen(book, sources, hosts, outputs); }
  RecipeId add(RecipeKind kind, std::vector<RecipeId> children = {}, Ref object = Ref()) {
    RecipeNode node;
    node.kind = kind;
    node.children = std::move(children);
    node.object = std::move(object);
    return book.add(std::move(node));
  }
  RecipeId constant(Ref object) { return add(RecipeKind::kConstant, {}, std::move(object)); }
  RecipeId source(PyObject* object) {
    sources.push_back(object);
    RecipeNode node;
    node.kind = RecipeKind::kSource;
    node.index = static_cast<std::int32_t>(sources.size() - 1);
    return book.add(std::move(node));
  }
};

}  // namespace

TEST_CASE("containers are made anew, outside objects and constants are themselves") {
  Namespace python("a = object()\n");
  Ref outside = python.eval("a");
  Book it;
  RecipeId a = it.source(outside.get()), one = it.constant(python.eval("1")), key = it.constant(python.eval("'k'"));
  RecipeId list = it.add(RecipeKind::kList, {one, a});
  RecipeId dict = it.add(RecipeKind::kDict, {key, list});
  RecipeId tuple =
      it.add(RecipeKind::kTuple, {list, dict, it.add(RecipeKind::kSet, {one}), it.add(RecipeKind::kSlice, {one, one, one})});
  Kitchen first = it.kitchen(), second = it.kitchen();
  python.set("x", first.make(tuple));
  python.set("y", second.make(tuple));
  CHECK(python.text("x == y and x is not y and x[0] is not y[0]") == "True");
  CHECK(python.text("x[0] is x[1]['k']") == "True");
  CHECK(python.text("x[0][1] is a") == "True");
  CHECK(python.text("x[2:]") == "({1}, slice(1, 1, 1))");
}

TEST_CASE("a list may hold itself") {
  Namespace python;
  Book it;
  RecipeId list = it.add(RecipeKind::kList);
  it.book.nodes[static_cast<std::size_t>(list)].children = {list, list};
  Kitchen kitchen = it.kitchen();
  python.set("x", kitchen.make(list));
  CHECK(python.text("x") == "[[...], [...]]");
  python.run("x.clear()");
}

TEST_CASE("instances get their attributes, items and slots without running __init__") {
  Namespace python(
      "class C(dict):\n"
      "  __slots__ = ('slot', '__dict__')\n"
      "  def __init__(self): raise RuntimeError\n");
  Book it;
  RecipeId name = it.constant(python.eval("'name'")), value = it.constant(python.eval("[1]"));
  RecipeId attributes = it.add(RecipeKind::kDict, {name, value}), items = it.add(RecipeKind::kDict, {name, name});
  RecipeNode node;
  node.kind = RecipeKind::kInstance;
  node.object = python.eval("C");
  node.children = {attributes, items, value};
  node.names = {python.eval("C.__dict__['slot']")};
  RecipeId instance = it.book.add(std::move(node));
  Kitchen kitchen = it.kitchen();
  python.set("x", checked(Py_XNewRef(kitchen.make(instance))).get());
  CHECK(python.text("type(x) is C, x.__dict__, dict(x), x.slot, x.slot is x.__dict__['name']") ==
        "(True, {'name': [1]}, {'name': 'name'}, [1], True)");
}

TEST_CASE("functions, cells, methods and iterators come back in the state they were in") {
  Namespace python(
      "def make():\n  n = 1\n  def f(x, k=2, *, flag=3): return x + n, k, flag\n  return f\nf = make()\nitems = [10, 20, "
      "30]\n");
  Book it;
  Ref globals = Ref::borrow(python.dict());
  RecipeId cell = it.add(RecipeKind::kCell, {it.constant(python.eval("5"))});
  RecipeNode node;
  node.kind = RecipeKind::kFunction;
  node.object = python.eval("f.__code__");
  node.children = {it.source(globals.get()), it.constant(python.eval("(7,)")), it.constant(python.eval("{'flag': 8}")),
                   it.add(RecipeKind::kTuple, {cell}), kNullRecipe, kNullRecipe, kNullRecipe, kNullRecipe};
  node.names = {python.eval("'f'"), python.eval("'outer.f'")};
  RecipeId function = it.book.add(std::move(node));
  Ref items = python.eval("items");
  RecipeId list = it.source(items.get());
  RecipeId iterator = it.add(RecipeKind::kIterator, {list}, python.eval("1"));
  RecipeId append = it.add(RecipeKind::kBuiltinMethod, {list}, python.eval("'append'"));
  RecipeId method = it.add(RecipeKind::kMethod, {function, it.constant(python.eval("100"))});
  RecipeId all = it.add(RecipeKind::kTuple, {function, iterator, append, method, cell});
  Kitchen kitchen = it.kitchen();
  python.set("x", checked(Py_XNewRef(kitchen.make(all))).get());
  CHECK(python.text("x[0](1), x[0].__name__, x[0].__qualname__, x[0].__defaults__, x[0].__closure__[0] is x[4]") ==
        "((6, 7, 8), 'f', 'outer.f', (7,), True)");
  CHECK(python.text("list(x[1])") == "[20, 30]");
  CHECK(python.text("x[2](40), items") == "(None, [10, 20, 30, 40])");
  CHECK(python.text("x[3]()") == "(105, 7, 8)");
}

TEST_CASE("tuples of a class of their own") {
  Namespace python("import collections\nP = collections.namedtuple('P', 'a b')\n");
  Book it;
  RecipeId one = it.constant(python.eval("1"));
  RecipeId point = it.add(RecipeKind::kTuple, {one, one}, python.eval("P"));
  Kitchen kitchen = it.kitchen();
  python.set("x", checked(Py_XNewRef(kitchen.make(point))).get());
  CHECK(python.text("x") == "P(a=1, b=1)");
}

TEST_CASE("a kitchen keeps nothing alive when it is gone") {
  Namespace python("import weakref\nclass C: pass\n");
  Book it;
  RecipeNode node;
  node.kind = RecipeKind::kInstance;
  node.object = python.eval("C");
  node.children = {kNullRecipe, kNullRecipe};
  RecipeId instance = it.book.add(std::move(node));
  RecipeId list = it.add(RecipeKind::kList, {instance});
  {
    Kitchen kitchen = it.kitchen();
    python.set("x", kitchen.make(list));
    python.run("watch = weakref.ref(x[0])");
  }
  CHECK(python.text("watch() is x[0]") == "True");
  python.run("del x");
  CHECK(python.text("watch()") == "None");
}

}  // namespace dynrun::trace
