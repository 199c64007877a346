#include "trace/callables.h"

#include "interpreter.h"
#include "trace/segment.h"

#include <ATen/ATen.h>

#include <string>

namespace dynrun::trace {
namespace {

using python::Ref;
using test::Namespace;

void build_table() {
  test::start_torch();
  static bool built = (build_callable_table(), true);
  (void)built;
}

}  // namespace

// The whole table is checked by tests/bindings; here are the ways in which a callable is found in it.
TEST_CASE("a C callable has one class, however it is reached") {
  build_table();
  Namespace python("import torch, math, operator\nitems = []\nx = torch.ones(2)\nclass L(list): pass\n");
  auto class_of = [&](const char* expression) {
    return std::string(class_name(classify(python.eval(expression).get()).call_class));
  };
  CHECK(class_of("len") == "pure");
  CHECK(class_of("math.sqrt") == "pure");
  CHECK(class_of("open") == "opaque");
  CHECK(class_of("list.append") == "modelled");
  CHECK(class_of("items.append") == "modelled");
  CHECK(class_of("L().append") == "modelled");
  CHECK(class_of("torch.relu") == "transparent");
  CHECK(class_of("torch._C._nn.gelu") == "transparent");
  CHECK(class_of("torch.Tensor.relu") == "transparent");
  CHECK(class_of("x.relu") == "transparent");
  CHECK(class_of("x.__add__") == "transparent");
  CHECK(class_of("x.numpy") == "opaque");
  CHECK(class_of("x.requires_grad_") == "opaque");
  CHECK(class_of("x.dim") == "modelled");
  CHECK(class_of("torch._C._set_grad_enabled") == "modelled");
  CHECK(class_of("torch.from_numpy") == "opaque");
  CHECK(class_of("torch._C._set_default_dtype") == "opaque");
  CHECK(class_of("lambda: 0") == "opaque");  // Python code is no business of the table's
  CHECK(callable_name(python.eval("torch.Tensor.relu").get()) == "TensorBase.relu");
}

TEST_CASE("attributes of a tensor by their descriptors, operators of torch.ops by their schemas") {
  build_table();
  Namespace python("import torch\nfrom torch import ops\n");
  auto attribute = [&](const char* name) {
    return std::string(class_name(
        classify_attribute(python.eval(std::string("torch._C.TensorBase.__dict__['") + name + "']").get()).call_class));
  };
  CHECK(attribute("shape") == "modelled");
  CHECK(attribute("T") == "transparent");
  for (const char* name : {"data", "grad", "grad_fn", "_base", "_version"}) CHECK(attribute(name) == "opaque");
  CHECK(classify_attribute(nullptr).call_class == CallClass::kOpaque);
  auto op = [&](const char* expression) {
    return std::string(class_name(classify_operator(python.eval(expression).get()).call_class));
  };
  CHECK(op("ops.aten.add") == "transparent");
  CHECK(op("ops.aten.add.Tensor") == "transparent");
  CHECK(op("ops.aten.relu.default") == "transparent");
  CHECK(op("ops.aten.add.str") == "opaque");  // TorchScript's own
  CHECK(op("ops.prims.sin") == "opaque");
  CHECK(op("torch.relu") == "opaque");
  CHECK(classify_callable(python.eval("ops.aten.add.Tensor._op").get()).call_class == CallClass::kTransparent);
}

TEST_CASE("torch's state at entry names what differs") {
  build_table();
  Namespace python("import torch\n");
  TorchState before = TorchState::now();
  CHECK(before == TorchState::now());
  python.run("torch.set_default_dtype(torch.float64)");
  TorchState after = TorchState::now();
  CHECK_FALSE(before == after);
  CHECK(before.difference(after).guard == "default dtype");
  python.run("torch.set_default_dtype(torch.float32); torch._C._set_grad_enabled(False)");
  CHECK_FALSE(before == TorchState::now());
  python.run("torch._C._set_grad_enabled(True)");
  CHECK(before == TorchState::now());
}

TEST_CASE("inputs that share a storage have a pattern of their own") {
  at::Tensor base = at::zeros({8}), other = at::zeros({8});
  CHECK(alias_pattern({base, other}) == alias_pattern({other, base}));
  CHECK(alias_pattern({base, base}) != alias_pattern({base, other}));
  CHECK(alias_pattern({base, base.slice(0, 2)}) != alias_pattern({base, base.slice(0, 3)}));
  CHECK(alias_pattern({base, other, other}) != alias_pattern({base, other, base}));
}

}  // namespace dynrun::trace
