#include "engine/engine.h"

#include "guards/storage_watch.h"
#include "interpreter.h"
#include "trace/callables.h"

#include <string>

namespace dynrun::engine {
namespace {

using python::Ref;
using test::Namespace;

// The engine of this process, started as the executable starts it; what was recorded before is forgotten.
Engine& fresh_engine() {
  if (engine() == nullptr) {
    test::start_torch();
    static DynrunOptions options{};
    options.size = sizeof options;
    REQUIRE(start_hook() == nullptr);
    start_engine(options);
    trace::build_callable_table();
    guards::watch_storage_aliases();
  }
  engine()->forget_segments();
  engine()->reset_report();
  return *engine();
}

constexpr char kPrelude[] =
    "import torch\n"
    "x = torch.arange(4.0)\n";

// Four calls, from code that is new each time and so never hot; str() of what the last one gives.
std::string repeat(Namespace& python, const std::string& call) {
  python.run("for _ in range(4): result = " + call);
  return python.text("result.tolist()");
}

// "segments compiled, replays"
std::string counts(Engine& engine) {
  report::Report report = engine.report();
  return std::to_string(report.segments_compiled) + ", " + std::to_string(report.segment_replays);
}

// "guard: was W, is N" of each miss
std::string misses(Engine& engine) {
  std::string text;
  for (const report::GuardMiss& miss : engine.report().guard_misses)
    text += miss.guard + ": was " + miss.was + ", is " + miss.now + "\n";
  return text;
}

}  // namespace

TEST_CASE("a marked function is recorded at its first call and replayed from then on") {
  Engine& engine = fresh_engine();
  Namespace python(kPrelude);
  python.run("def f(x): return x * 2 + 1");
  engine.mark(python.eval("f").get());
  CHECK(repeat(python, "f(x)") == "[1.0, 3.0, 5.0, 7.0]");
  CHECK(counts(engine) == "1, 3");
  report::Report report = engine.report();
  CHECK(report.operators_captured == 8);
  CHECK(report.graph_breaks.empty());
  CHECK(report.guard_misses.empty());
}

TEST_CASE("a failed guard is named, the new state gets a segment of its own, the old one is found again") {
  Engine& engine = fresh_engine();
  Namespace python(kPrelude);
  python.run("scale = 2.0\ndef f(x): return x * scale");
  engine.mark(python.eval("f").get());
  CHECK(repeat(python, "f(x)") == "[0.0, 2.0, 4.0, 6.0]");
  python.run("scale = 'a'");
  python.run("try: f(x)\nexcept TypeError as error: text = str(error)");
  CHECK(misses(engine) == "scale: was 2.0, is 'a'\n");
  python.run("scale = 2.0");
  engine.reset_report();
  CHECK(repeat(python, "f(x)") == "[0.0, 2.0, 4.0, 6.0]");
  CHECK(counts(engine) == "0, 4");
  CHECK(repeat(python, "f(x[:2])") == "[0.0, 2.0]");
  CHECK(misses(engine) == "x: was Float[4] strides [1] on cpu, is Float[2] strides [1] on cpu\n");
}

TEST_CASE("an opaque call breaks the graph in two, and is named with its line") {
  Engine& engine = fresh_engine();
  Namespace python(kPrelude);
  python.run("import os\ndef f(x):\n  y = x + 1\n  os.getpid()\n  return y * 2\n");
  engine.mark(python.eval("f").get());
  CHECK(repeat(python, "f(x)") == "[2.0, 4.0, 6.0, 8.0]");
  CHECK(counts(engine) == "2, 6");
  report::Report report = engine.report();
  REQUIRE(report.graph_breaks.size() == 1);
  CHECK(report.graph_breaks[0].id == "opaque-call");
  CHECK(report.graph_breaks[0].reason.find("getpid") != std::string::npos);
  CHECK(report.graph_breaks[0].place.line == 4);
  CHECK(report.graph_breaks[0].place.function == "f");
}

TEST_CASE("what a loop calls that was lent to the VM replays its own segments to the end") {
  Engine& engine = fresh_engine();
  Namespace python(kPrelude);
  python.run(
      "import ctypes\n"
      "def g(x):\n  for _ in range(3): x = x * 2 + 1\n  return x\n"
      "def f(x, i):\n"
      "  y = g(x)\n"
      "  ctypes.c_int(i)\n"
      "  y.requires_grad_().sum().backward()\n"  // the frames of the loop are left behind, so that g starts by itself
      "  return g(y.detach())\n"
      "def loop():\n  for i in range(120): result = f(x, i)\n  return result\n");
  python.run("loop()");
  engine.reset_report();
  python.run("loop()");
  report::Report report = engine.report();
  CHECK(report.operators_captured * 10 > report.operators_total * 8);
  for (const report::GuardMiss& miss : report.guard_misses) CHECK(miss.guard != "none");
}

TEST_CASE("effects are done on each replay, and exceptions come from the line that raises") {
  Engine& engine = fresh_engine();
  Namespace python(kPrelude);
  python.run(
      "class Box: pass\n"
      "box = Box()\nbox.count = 0\nseen = []\n"
      "def f(x):\n"
      "  box.last = x + 1\n"
      "  seen.append(x.shape)\n"
      "  return box.last * 2\n"
      "def g(x, i):\n"
      "  y = x + 1\n"
      "  return torch.nn.functional.embedding(i, y)\n");
  engine.mark(python.eval("f").get());
  engine.mark(python.eval("g").get());
  repeat(python, "f(x)");
  CHECK(python.text("len(seen), box.last.tolist()") == "(4, [1.0, 2.0, 3.0, 4.0])");
  python.run(
      "table, index = torch.ones(3, 2), torch.tensor([0, 2])\n"
      "for _ in range(4): g(table, index)\n"
      "try: g(table, torch.tensor([0, 3]))\n"
      "except IndexError as error: line = error.__traceback__.tb_next.tb_lineno\n");
  CHECK(python.text("line") == "11");
}

TEST_CASE("segments keep neither arguments, results nor the model alive") {
  Engine& engine = fresh_engine();
  Namespace python(kPrelude);
  python.run(
      "import weakref, gc\n"
      "model = torch.nn.Linear(4, 4)\n"
      "def f(x): return model(x)\n");
  engine.mark(python.eval("f").get());
  python.run("with torch.no_grad():\n  for _ in range(4): result = f(x)");
  CHECK(engine.report().segment_replays >= 3);
  python.run("watch = [weakref.ref(o) for o in (model, x, result, model.weight)]\ndel model, x, result\ngc.collect()");
  CHECK(python.text("[w() for w in watch]") == "[None, None, None, None]");
}

TEST_CASE("forgotten segments are recorded again") {
  Engine& engine = fresh_engine();
  Namespace python(kPrelude);
  python.run("def f(x): return x.relu()");
  engine.mark(python.eval("f").get());
  repeat(python, "f(x)");
  CHECK(counts(engine) == "1, 3");
  engine.forget_segments();
  repeat(python, "f(x)");
  CHECK(counts(engine) == "2, 6");
}

}  // namespace dynrun::engine
