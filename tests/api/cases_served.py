"""torch.compile in a script that dynrun runs."""

import inspect
import os
import subprocess
import sys
import warnings

import dynrun
import torch
from support import Graphs, raises, same


def segments():
    return dynrun.stats()["segments_compiled"]


def test_signature_stays():
    assert str(inspect.signature(torch.compile)).startswith("(model") and torch.compile.__module__ == "torch" and "fullgraph" in torch.compile.__doc__


def test_call_decorator_method():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        @torch.compile
        def forward(self, x):
            return self.linear(x).relu()

    @torch.compile(fullgraph=True, dynamic=True, mode="reduce-overhead")
    def f(x):
        return x * 2

    model, x = Model(), torch.ones(2, 3)
    whole = torch.compile(torch.nn.Linear(3, 3))
    plain = torch.nn.Linear(3, 3)
    plain.compile()
    for _ in range(3):
        same(model(x), model.linear(x).relu())
        same(f(x), x * 2)
        same(whole(x), whole._orig_mod(x))
        same(plain(x), torch.nn.functional.linear(x, plain.weight, plain.bias))
    assert type(whole).__name__ == "OptimizedModule" and isinstance(whole, torch._dynamo.OptimizedModule)
    assert segments() >= 4 and "torch._inductor.compile_fx" not in sys.modules


def test_back_ends():
    graphs = Graphs()
    f = torch.compile(lambda x: x.sin().cos(), backend=graphs)
    g = torch.compile(lambda x: x.sin().cos(), backend="eager")
    for _ in range(3):
        f(torch.ones(2)), g(torch.ones(2))
    assert len(graphs.modules) == 1 and graphs.calls == 2


def test_errors_are_torchs():
    raises(RuntimeError, lambda: torch.compile(lambda x: x, mode="default", options={"a": 1}), "can't be specified at the same time")
    raises(RuntimeError, lambda: torch.compile(lambda x: x, mode="nope"), "Unrecognized mode=nope")
    raises(RuntimeError, lambda: torch.compile(lambda x: x, options={"nope": 1}), "Unexpected optimization option nope")
    raises(RuntimeError, lambda: torch.compile(lambda x: x, backend="nope"), "Invalid backend")
    raises(RuntimeError, lambda: torch.compile()(None), "Model can't be None")
    breaks = torch.compile(lambda x: x if x.sum() > 0 else -x, fullgraph=True)
    raises(torch._dynamo.exc.Unsupported, lambda: breaks(torch.ones(2)), "fullgraph=True")


def test_what_is_switched_off():
    f = torch.compile(lambda x: x + 1, disable=True)
    f(torch.ones(2))
    assert segments() == 0
    torch._dynamo.config.disable = True
    torch.compile(lambda x: x + 1)(torch.ones(2))
    assert segments() == 0


def test_dynamos_own_words():
    graphs = Graphs()

    @torch.compiler.disable
    def apart(x):
        return x.exp()

    @torch._dynamo.disable(recursive=True)
    def apart_too(x):
        return x.log()

    def f(x):
        x = x.sin()
        torch._dynamo.graph_break()
        return apart_too(apart(x.cos()).cosh())

    fast = torch.compile(f, backend=graphs)
    for _ in range(4):
        same(fast(torch.ones(2)), torch.ones(2).sin().cos().exp().cosh().log())
    names = [graphs.names(index) for index in range(len(graphs.modules))]
    assert names == [["aten::sin"], ["aten::cos"], ["aten::cosh"]], names
    assert apart.__name__ == "apart" and not torch.compiler.is_compiling()
    torch._dynamo.reset()
    fast(torch.ones(2))
    assert len(graphs.modules) == 6


def test_dynamo_sees_nothing_of_dynrun():
    """Dynamo itself, asked for by name, does not trace what dynrun put in its place."""
    import torch._dynamo

    def f(x):
        y = x + 1
        print("one break")
        return y * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        told = torch._dynamo.explain(f)(torch.ones(3))
    assert (told.graph_count, told.graph_break_count) == (2, 1)


def test_stances():
    graphs = Graphs()
    f = torch.compile(lambda x: x.sin() + 1, backend=graphs)
    x = torch.ones(2)
    with torch.compiler.set_stance("force_eager"):
        for _ in range(3):
            same(f(x), x.sin() + 1)
    assert not graphs.modules
    for _ in range(3):
        same(f(x), x.sin() + 1)
    assert len(graphs.modules) == 1


def test_settings_are_named():
    code = "import torch, torch._dynamo; torch._dynamo.config.skip_nnmodule_hook_guards = False; torch._dynamo.config.verbose = True\nfor _ in range(2): torch.compile(lambda x: x + 1)(torch.ones(2))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.returncode == 0 and ran.stderr.count("torch._dynamo.config.skip_nnmodule_hook_guards is ignored") == 1 and "verbose" not in ran.stderr, ran.stderr


def test_keep():
    code = "import torch; print(torch.compile.__code__.co_filename.endswith('torch/__init__.py'))"
    for option, expected in (("serve", "False"), ("keep", "True")):
        ran = subprocess.run([os.environ.get("DYNRUN", sys.executable), f"--torch-compile={option}", "-c", code], capture_output=True, text=True)
        assert ran.stdout.strip() == expected, (option, ran)


def test_kept_graphs_are_run():
    """In hot code, too, calls go by way of what torch.compile made."""
    code = """
import torch
calls = []
def back_end(module, inputs):
    return lambda *values: calls.append(1) or module.forward(*values)
inner = torch.compile(lambda x: x.sin() + 1, backend=back_end)
def hot(x):
    return inner(x * 2) + 1
for _ in range(8):
    hot(torch.ones(3))
print(len(calls))
"""
    for option in ("--vm=auto", "--vm=all"):
        ran = subprocess.run([os.environ.get("DYNRUN", sys.executable), "--torch-compile=keep", option, "-c", code], capture_output=True, text=True)
        assert ran.stdout.strip() == "8", (option, ran)


def test_fullgraph_of_what_dynrun_breaks_at():
    """Where torch.compile finds no break, dynrun's own are none of the script's business."""
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    fast = torch.compile(lambda x: Twice.apply(x + 1) * 3, fullgraph=True)
    for _ in range(3):
        x = torch.ones(2, requires_grad=True)
        fast(x).sum().backward()
        same(x.grad, torch.full((2,), 6.0))


def test_fullgraph_is_torchs():
    """What torch.compile captures in one graph raises nothing: numbers that are read of tensors, and what is asserted of them."""
    def asserts(x):
        assert x.sum() > 0, "positive"
        return x + 1

    def checks(x):
        n = x.sum().int().item()
        torch._check(n >= 0)
        return torch.zeros(n)

    captured = [asserts, checks, lambda x: x * int(x.sum()), lambda x: x * bool(x.sum() > 0), lambda x: torch.zeros(int(x.sum())), lambda x: x[:int(x[0])],
                lambda x: torch.arange(x.sum().item()), lambda x: max(x[0], x[1]) + x, lambda x: sum(x.int().tolist()) + x, lambda x: x + (x.sum().item() == 3),
                lambda x: torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))]
    for function in captured:
        fast = torch.compile(function, fullgraph=True)
        for _ in range(3):
            same(fast(torch.ones(3)), function(torch.ones(3)))
    raises(AssertionError, lambda: torch.compile(asserts, fullgraph=True)(-torch.ones(3)), "positive")

    def loops(x):
        for i in range(x.sum().int().item()):
            x = x + i
        return x

    decided = [loops, lambda x: x if x.sum() > 0 else -x, lambda x: x if x.sum().item() > 0 else -x, lambda x: x * (not (x.sum() > 0)), lambda x: x + len(f"{x.sum().item()}"),
               lambda x: [x, x + 1, x + 2, x + 3][x.sum().int().item()]]
    for function in decided:
        raises(torch._dynamo.exc.Unsupported, lambda: torch.compile(function, fullgraph=True)(torch.ones(3)), "fullgraph=True")


def test_fullgraph_of_code_that_asks():
    """Code that asks whether it is being compiled takes another way under torch.compile."""
    def looks(x):
        if not torch.compiler.is_compiling() and x.sum() > 100:
            return x
        return x + 1

    fast = torch.compile(looks, fullgraph=True)
    for _ in range(3):
        same(fast(torch.ones(3)), torch.full((3,), 2.0))


def test_fullgraph_of_temporaries():
    def branches(x):
        return x + 1 if x.sum() > 0 else x - 1

    def conditional(x):
        return torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))

    same(torch.compile(conditional)(torch.ones(3)), torch.ones(3).sin())
    for _ in range(3):
        raises(torch._dynamo.exc.Unsupported, lambda: torch.compile(branches, fullgraph=True)(torch.ones(3)), "fullgraph=True")


def test_dynamos_optimize():
    import torch._dynamo
    graphs = Graphs()
    functions = [lambda x: x + 1, lambda x: x + 2, lambda x: x + 3]
    for count, function in enumerate(functions, 1):
        fast = torch._dynamo.optimize(graphs)(function)
        for _ in range(3):
            same(fast(torch.ones(2)), function(torch.ones(2)))
        assert len(graphs.modules) == count
    raises(torch._dynamo.exc.Unsupported, lambda: torch._dynamo.optimize(graphs, nopython=True)(lambda x: x if x.sum() > 0 else -x)(torch.ones(2)), "fullgraph=True")
    same(torch._dynamo.optimize_assert(graphs)(torch.nn.Identity())(torch.ones(2)), torch.ones(2))
    with torch.no_grad():
        raises(RuntimeError, lambda: torch._dynamo.optimize(graphs).__enter__(), "context manager")
    assert torch._dynamo.optimize(disable=True)(functions[0]) is functions[0]


def test_forced_back_end():
    import torch._dynamo
    first, second = Graphs(), Graphs()
    own, other = torch.compile(lambda x: x * 2), torch.compile(lambda x: x * 3, backend=first)
    for _ in range(3):
        own(torch.ones(2)), other(torch.ones(2))
    with torch.compiler.set_stance("default", force_backend=second):
        for _ in range(3):
            same(own(torch.ones(2)), torch.full((2,), 2.0))
            same(other(torch.ones(2)), torch.full((2,), 3.0))
    assert len(second.modules) == 2 and len(first.modules) == 1
    other(torch.ones(2))
    assert first.calls == 3 and second.calls == 4


def test_compiled_inside_compiled():
    """One graph for the outer one's back end."""
    class Twice(torch.nn.Module):
        def forward(self, x):
            return x * 2

    def f(inner):
        return lambda x: inner(x.sin()) + 1

    outer, other = Graphs(), Graphs()
    twice = torch.ones(2).sin() * 2 + 1
    for full in False, True:
        for inner in (torch.compile(lambda x: x * 2, backend=other),
                      torch.compile(lambda x: x * 2, backend=outer),
                      torch.compile(lambda x: x * 2),
                      torch.compile(lambda x: x * 2, backend=other, fullgraph=True),
                      torch.compile(Twice(), backend=other)):
            before = len(outer.modules)
            fast = torch.compile(f(inner), backend=outer, fullgraph=full)
            for _ in range(3):
                same(fast(torch.ones(2)), twice)
            assert len(outer.modules) == before + (not full), (full, len(outer.modules) - before)  # the same graphs again
    served = torch.compile(f(torch.compile(lambda x: x * 2, backend=other)))
    for _ in range(3):
        same(served(torch.ones(2)), twice)
    assert not other.modules
    same(torch.compile(lambda x: x * 3, backend=other)(torch.ones(2)), torch.full((2,), 3.0))
    breaks = torch.compile(f(torch.compile(lambda x: x if x.sum() > 0 else -x, backend=other, fullgraph=True)), backend=outer)
    raises(torch._dynamo.exc.Unsupported, lambda: breaks(torch.ones(2)), "fullgraph=True")


def test_what_cannot_be_compiled():
    """Torch's own words."""
    for call in (lambda: torch.compile(3)), (lambda: torch.compile(3, backend="eager")), (lambda: torch._dynamo.optimize("eager")(3)):
        raises(AssertionError, call, "A callable function is expected, but <class 'int'> is provided.")
