"""dynrun.export: whole calls as graph modules."""

import functools

import dynrun
import torch
from support import raises, same


def test_arguments_and_results_keep_their_form():
    def f(x, pair, *, scale):
        return {"sum": x + pair[0], "rest": (pair[1] * scale["k"], 3, x)}

    x, y, z = torch.randn(3, requires_grad=True), torch.randn(3), torch.randn(3)
    graph = dynrun.export(f, x, (y, z), scale={"k": torch.tensor(2.0)})
    a, b, c, k = torch.randn(3), torch.randn(3), torch.randn(3), torch.tensor(5.0)
    got, expected = graph(a, (b, c), scale={"k": k}), f(a, (b, c), scale={"k": k})
    same(got, expected)
    assert got["rest"][1] == 3 and got["rest"][2] is a
    same(graph(a, (b, c), {"k": k}), expected)
    raises(TypeError, lambda: graph(a), "missing")
    twin = __import__("copy").deepcopy(graph)
    same(twin(a, (b, c), scale={"k": k}), expected)
    assert isinstance(graph, torch.fx.GraphModule) and graph.guards and all(isinstance(line, str) for line in graph.guards)


def test_parameters_are_attributes():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).eval()
    graph = dynrun.export(model, torch.randn(2, 3))
    assert len(list(graph.parameters())) == 4 and len(list(graph.buffers())) == 2
    x = torch.randn(2, 3)
    same(graph(x), model(x))
    graph(x).sum().backward()
    assert model[0].weight.grad is not None
    print_readable = graph.print_readable(print_output=False)
    assert "torch.ops.aten.linear.default" in print_readable


def test_defaults_and_numbers():
    def f(x, y=2.0, z=float("nan"), *, k=None):
        return x * y + z if k else x / y

    x = torch.ones(3)
    for graph in dynrun.export(f, x), dynrun.export(f, x, 2.0, float("nan"), k=None):
        for call in (lambda: graph(x)), (lambda: graph(x, 2.0)), (lambda: graph(x, k=None, y=2.0)), (lambda: graph(x, z=float("nan"))):
            same(call(), x / 2)
        for call in (lambda: graph(x, 3.0)), (lambda: graph(x, 2)), (lambda: graph(x, z=0.0)), (lambda: graph(x, k=True)):
            raises((AssertionError, ValueError), call, "this graph was exported")
    raises(ValueError, lambda: dynrun.export(f, x, 0.0)(x, -0.0), "exported for 0.0, not -0.0")
    same(dynrun.export(functools.partial(torch.add, x), x * 2)(x * 3), x * 4)
    same(dynrun.export(x.add, x * 2)(x * 3), x * 4)


def test_refusals():
    x = torch.ones(2)
    error = raises(RuntimeError, lambda: dynrun.export(lambda x: x if x.sum() > 0 else -x, x), "a branch on a tensor's value", __file__)
    assert type(error).__name__ == "Unsupported"
    raises(ValueError, lambda: dynrun.export(lambda x: print("shown") or x + 1, x), "prints")
    total = torch.zeros(2)
    raises(ValueError, lambda: dynrun.export(lambda x: total.add_(x), x), "writes to outside objects")
    raises(ValueError, lambda: dynrun.export(lambda x: x, x), "no operator")
    same(dynrun.export(torch.sin, x)(x * 2), (x * 2).sin())
    raises(TypeError, lambda: dynrun.export(3, x), "takes a function or a module")


def test_more_than_one_graph():
    def long(x):
        n = 0
        while n < 400:
            x = x.sin() + 1
            n += 1
        return x

    raises(ValueError, lambda: dynrun.export(long, torch.ones(2)), "graphs")


def test_nothing_is_kept():
    import gc
    import weakref
    model = torch.nn.Linear(3, 3)
    dynrun.export(model, torch.ones(1, 3))
    dynrun.explain(model)(torch.ones(1, 3))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_again_and_again():
    for _ in range(4):
        graph = dynrun.export(lambda a: a + 1, torch.ones(3))
        same(graph(torch.zeros(3)), torch.ones(3))


def test_what_it_was_exported_for():
    graph = dynrun.export(lambda a, n, name=None: (a * n, a.shape, n), torch.ones(3), 3, name="x")
    got = graph(torch.ones(3) * 2, 3, name="x")
    same(got[0], torch.full((3,), 6.0))
    assert tuple(got[1]) == (3,) and got[2] == 3
    raises(AssertionError, lambda: graph(torch.ones(3), 4, name="x"), "exported for 3")
    raises(AssertionError, lambda: graph(torch.ones(3), 3, name="y"), "exported for 'x'")
    raises(RuntimeError, lambda: graph(torch.ones(4), 3, name="x"), "sizes mismatch")
    raises(RuntimeError, lambda: graph(torch.ones(3).double(), 3, name="x"), "dtype mismatch")


OUTSIDE = torch.ones(3)


def test_tensors_of_two_names():
    x = torch.ones(3)
    raises(ValueError, lambda: dynrun.export(lambda a, b: a * 2 + b, x, x), "two arguments are one tensor")
    raises(ValueError, lambda: dynrun.export(lambda a, b: a + OUTSIDE + b, x, OUTSIDE), "another name")


def test_objects():
    class Pair:
        def __init__(self, a):
            self.a = a

    raises(ValueError, lambda: dynrun.export(lambda pair: pair.a + 1, Pair(torch.ones(2))), "an argument holds a Pair")
    raises(ValueError, lambda: dynrun.export(lambda a: Pair(a + 1), torch.ones(2)), "the result holds a Pair")


def test_guards_in_words():
    class Model(torch.nn.Module):
        scale = 2

        def forward(self, x):
            return x * self.scale if self.training else x

    graph = dynrun.export(Model(), torch.ones(3, 4))
    text = "\n".join(graph.guards)
    for words in ("is a tensor Float[3, 4]", "self is a Model with ", "scale 2", "training True"):
        assert words in text, text


def test_calls_that_it_was_not_exported_for():
    x, w = torch.arange(4.0).reshape(2, 2), torch.full((2, 2), 10.0)

    def either(x, y=None, z=None):
        return x + y if y is not None else x * z if z is not None else x

    raises(ValueError, lambda: dynrun.export(either, x, z=w)(x, w), "exported with y left out")
    same(dynrun.export(either, x, z=w)(z=w, x=x), x * w)
    raises(ValueError, lambda: dynrun.export(lambda many: torch.stack(many).sum(0), [x, x * 2])([x, x, x]), "of the form")
    raises(ValueError, lambda: dynrun.export(lambda d: sum(d.values()), {"a": x, "b": w})({"a": x, "b": w, "c": w.clone()}), "of the form")
    raises(ValueError, lambda: dynrun.export(lambda x: x * 2 if x.is_contiguous() else x * 3, x)(x.t()), "strides")
    raises(ValueError, lambda: dynrun.export(lambda x: x * 2, x)(x.clone().requires_grad_()), "requires gradients")
    raises(ValueError, lambda: dynrun.export(lambda x, s: x * s, x.int(), 2)(x.int(), 2.0), "2.0")
    graph = dynrun.export(lambda x: x * 2 if torch.is_grad_enabled() else x * 3, x)
    with torch.no_grad():
        raises(ValueError, lambda: graph(x), "with gradients enabled")


def test_a_call_with_effects_runs_once():
    runs = []
    raises(ValueError, lambda: dynrun.export(lambda x: runs.append(1) or x + 1, torch.ones(2)), "does more than compute")
    assert len(runs) == 1, runs
