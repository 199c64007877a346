"""dynrun.export: whole calls as graph modules."""

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
    raises(TypeError, lambda: graph(a, b), "arguments of the form")
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


def test_refusals():
    x = torch.ones(2)
    error = raises(RuntimeError, lambda: dynrun.export(lambda x: x if x.sum() > 0 else -x, x), "a branch on a tensor's value", __file__)
    assert type(error).__name__ == "Unsupported"
    raises(ValueError, lambda: dynrun.export(lambda x: print("shown") or x + 1, x), "prints")
    total = torch.zeros(2)
    raises(ValueError, lambda: dynrun.export(lambda x: total.add_(x), x), "writes to outside objects")
    raises(ValueError, lambda: dynrun.export(lambda x: x, x), "no operator")
    raises(TypeError, lambda: dynrun.export(3, x), "takes a function or a module")
