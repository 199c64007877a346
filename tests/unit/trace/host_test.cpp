#include "trace/host.h"
#include "trace/host_difference.h"

#include "interpreter.h"

#include <opcode.h>

#include <vector>

namespace dynrun::trace {
namespace {

using python::Ref;
using test::Namespace;

// A program that reads nothing but constants: `value` is computed from them.
struct Numbers {
  HostProgram program;
  guards::Program guards;
  std::vector<Ref> values;

  bool run() { return program.run({}, values); }
  HostId binary(int op, HostId a, HostId b, const Ref& now) { return program.compute(HostKind::kBinary, op, {a, b}, nullptr, now.get()); }
};

}  // namespace

TEST_CASE("host values are computed as CPython computes them") {
  Namespace python("seven = 7\nhalf = 0.5\n");
  Numbers n;
  HostId seven = n.program.constant(python.eval("seven").get()), half = n.program.constant(python.eval("half").get());
  HostId sum = n.binary(NB_ADD, seven, half, python.eval("seven + half"));
  HostId power = n.binary(NB_POWER, seven, seven, python.eval("seven ** 7"));
  HostId text = n.program.compute(HostKind::kFormat, 2, {sum}, nullptr, python.eval("''").get());
  REQUIRE(n.run());
  python.set("got", n.values[static_cast<std::size_t>(sum)].get());
  python.set("power", n.values[static_cast<std::size_t>(power)].get());
  python.set("text", n.values[static_cast<std::size_t>(text)].get());
  CHECK(python.text("got, power, text") == "(7.5, 823543, '7.5')");
  CHECK(n.program.describe(sum, n.guards) == "(7 + 0.5)");
}

TEST_CASE("a requirement that does not hold, a value of another type and an error are misses without an error") {
  Namespace python("");
  Ref zero = python.eval("0"), one = python.eval("1"), negative = python.eval("-0.0"), positive = python.eval("0.0");
  Numbers divides;
  HostId a = divides.program.constant(one.get()), b = divides.program.constant(zero.get());
  divides.binary(NB_TRUE_DIVIDE, a, b, positive);
  CHECK_FALSE(divides.run());
  CHECK(PyErr_Occurred() == nullptr);

  Numbers type;
  HostId c = type.program.constant(one.get());
  type.binary(NB_TRUE_DIVIDE, c, c, one);  // gives a float where an int was seen
  CHECK_FALSE(type.run());

  Numbers signs;
  HostId d = signs.program.constant(negative.get());
  signs.program.require_equal(d, positive.get());
  CHECK_FALSE(signs.run());
  CHECK(signs.program.explain_miss({}, signs.guards).now == "-0.0");

  Numbers holds;
  HostId e = holds.program.constant(one.get()), f = holds.program.constant(zero.get());
  holds.program.require_comparison(Py_LT, f, e, true);
  holds.program.require_truth(f, false);
  holds.program.require_equal(e, one.get());
  CHECK(holds.run());
  CHECK(holds.program.print(holds.guards) == "0 < 1: true\nbool(0): false\n1 is 1\n");
}

TEST_CASE("a number's parts are met once, however often they are in it") {
  Namespace python("");
  const Ref one = python.eval("1"), large = python.eval("2 ** 60");
  Numbers n;
  const HostId first = n.program.compute(HostKind::kCall, 0, {}, nullptr, one.get());
  HostId number = first;
  for (int i = 0; i < 60; i++) number = n.binary(NB_ADD, number, number, large);
  int steps = 0;
  HostId last = number + 1;
  n.program.visit_parts({number, first, number}, [&](HostId id, const HostStep&) {
    CHECK(id < last);
    last = id;
    return ++steps > 0;
  });
  CHECK(steps == 61);
  CHECK(n.program.describe(number, n.guards).size() < 2000);
  const HostId less = n.binary(NB_SUBTRACT, number, n.program.constant(one.get()), large);
  CHECK(constant_difference(n.program, number, less) == 1);
  CHECK_FALSE(constant_difference(n.program, number, first));
}

}  // namespace dynrun::trace
