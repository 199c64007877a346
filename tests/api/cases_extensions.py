"""Extension modules that write tensors through pointers, which moves no version counter: evaluations see each write."""

import pathlib
import sys

import dynrun
import torch

sys.path.insert(0, str(pathlib.Path("/proc/self/exe").resolve().parent / "tests"))
import writers  # noqa: E402


def ones():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.Linear(2, 2)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(1)
    return model


def evaluate(model, mode=torch.no_grad):
    """What a compiled model gives, four times."""
    with mode():
        return [model(torch.ones(1, 2)).sum().item() for _ in range(4)]


def check(write, mode=torch.no_grad):
    """`write` is given a model's weights, whose halves and quarters make the model give these."""
    model = ones()
    compiled = dynrun.compile(model)
    assert evaluate(compiled, mode) == [14] * 4
    for expected in (4, 1.25):
        with mode():
            write(model)
        assert evaluate(compiled, mode) == [expected] * 4


def one_by_one(operator):
    def write(model):
        for parameter in model.parameters():
            operator(parameter, 0.5)

    return write


def test_pybind():
    check(one_by_one(writers.scale))
    check(one_by_one(writers.scale), torch.inference_mode)
    check(lambda model: writers.scale_all(list(model.parameters()), 0.5))


def test_kept():
    model = ones()
    compiled = dynrun.compile(model)
    assert evaluate(compiled) == [14] * 4
    for parameter in model.parameters():
        writers.keep(parameter)
    assert evaluate(compiled) == [14] * 4
    for expected in (4, 1.25):
        writers.scale_kept(0.5)
        assert evaluate(compiled) == [expected] * 4


def test_operators():
    for mode in (torch.no_grad, torch.inference_mode):
        for name in ("said", "said_and_given", "unsaid", "unsaid_and_given_", "by_device"):
            check(one_by_one(getattr(torch.ops.writers, name)), mode)
        for name in ("said_of_list", "unsaid_of_list"):
            check(lambda model, operator=getattr(torch.ops.writers, name): operator(list(model.parameters()), 0.5), mode)


def test_registered_late():
    model = ones()
    compiled = dynrun.compile(model)
    assert evaluate(compiled) == [14] * 4
    writers.define_late()
    operator = torch.ops.late_writers.unsaid
    for expected in (4, 1.25):
        one_by_one(operator)(model)
        assert evaluate(compiled) == [expected] * 4


def test_within():
    for name in ("said", "said_and_given", "unsaid", "unsaid_and_given_", "by_device"):
        operator = getattr(torch.ops.writers, name)
        model = ones()

        @dynrun.compile
        def call(x, model=model, operator=operator):
            before = model[0].weight * 2 + x
            operator(model[0].weight, 0.5)
            after = model[0].weight * 2 + x
            operator(after, 3.0)
            return before.sum().item(), (after + 1).sum().item(), model(x[:1]).sum().item()

        with torch.no_grad():
            assert [call(torch.ones(2, 2)) for _ in range(5)] == [(12, 28, 10), (8, 22, 8), (6, 19, 7), (5, 17.5, 6.5), (4.5, 16.75, 6.25)]


def test_gradients():
    """Kernels before an operator leave what autograd makes of it as it is."""
    evaluate(dynrun.compile(ones()))
    weight = torch.ones(2, requires_grad=True)
    (torch.ops.writers.unsaid_and_given_(weight * 3, 2.0) ** 2).sum().backward()
    assert weight.grad.tolist() == [36.0, 36.0]
