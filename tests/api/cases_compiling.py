"""dynrun.compile, optimize, disable and graph_break."""

import copy
import pickle
import threading

import dynrun
import torch
from support import Graphs, raises, same


def test_decorators():
    @dynrun.compile
    def f(x):
        "doc"
        return x + 1

    @dynrun.compile(fullgraph=True, dynamic=True)
    def g(x, *, k=2):
        "text"
        return x * k

    assert f.__name__ == "f" and g.__name__ == "g" and g.__doc__ == "text"
    for _ in range(3):
        same(f(torch.ones(2)), torch.full((2,), 2.0))
        same(g(torch.ones(2), k=3), torch.full((2,), 3.0))


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)
        self.note = "kept"

    def forward(self, x):
        return self.linear(x).relu()


def test_methods():
    graphs = Graphs()

    class Model(Layer):
        @dynrun.compile(backend=graphs)
        def forward(self, x):
            return self.linear(x).relu()

    models = [Model(), Model()]
    for model in models * 3:
        same(model(torch.ones(1, 3)), model.linear(torch.ones(1, 3)).relu())
    assert len(graphs.modules) == 1, len(graphs.modules)  # whose weights they are is an input


def test_module_stands_for_its_own():
    model = Layer()
    fast = dynrun.compile(model, backend="eager")
    assert fast.note == "kept" and fast.linear is model.linear and fast._orig_mod is model
    fast.note = "new"
    assert model.note == "new"
    fast.eval()
    assert not model.training and not fast.training
    assert list(fast.state_dict()) == ["_orig_mod.linear.weight", "_orig_mod.linear.bias"]
    assert [name for name, _ in fast.named_parameters()] == ["_orig_mod.linear.weight", "_orig_mod.linear.bias"]
    assert "Layer" in repr(fast) and type(fast).__name__ == "OptimizedModule" and "note" in dir(fast)
    raises(TypeError, lambda: len(fast), "does not support len()")
    assert len(dynrun.compile(torch.nn.Sequential(Layer()), backend="eager")) == 1
    twin = copy.deepcopy(fast)
    twin.linear.weight.data.zero_()
    assert model.linear.weight.abs().sum() > 0 and type(twin).__name__ == "OptimizedModule"
    again = pickle.loads(pickle.dumps(dynrun.compile(torch.nn.Linear(2, 2), fullgraph=True)))
    assert again(torch.ones(1, 2)).shape == (1, 2)
    del fast.note
    assert not hasattr(model, "note")
    fast(torch.ones(1, 3))
    assert isinstance(fast, torch._dynamo.OptimizedModule)
    same(fast(torch.ones(1, 3)), model(torch.ones(1, 3)))


def test_fullgraph():
    @dynrun.compile(fullgraph=True)
    def branches(x):
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y

    for _ in range(3):
        error = raises(RuntimeError, lambda: branches(torch.ones(2)), "fullgraph=True: a branch on a tensor's value", f"{__file__}:", "torch.where")
        assert f":{branches.__wrapped__.__code__.co_firstlineno + 3} in " in str(error), error
        assert type(error) is torch._dynamo.exc.Unsupported
    straight = dynrun.compile(lambda x: print("shown") or x + 1, fullgraph=True)
    for _ in range(3):
        straight(torch.ones(2))


def test_fullgraph_caught_inside():
    @dynrun.compile(fullgraph=True)
    def catches(x):
        try:
            return x * 2 if x.sum() > 0 else x
        except RuntimeError:
            return x - 1

    for _ in range(3):
        raises(RuntimeError, lambda: catches(torch.ones(2)), "fullgraph=True: a branch on a tensor's value", "torch.where")


def test_fullgraph_after_plain_calls():
    def branches(x):
        return x * 2 if x.sum() > 0 else x

    for _ in range(4):
        branches(torch.ones(2))
    raises(RuntimeError, lambda: dynrun.compile(branches, fullgraph=True)(torch.ones(2)), "fullgraph=True")
    same(branches(torch.ones(2)), torch.full((2,), 2.0))


def test_optimize():
    graphs = Graphs()

    def f(x):
        return x.sin() + 1

    with dynrun.optimize(backend=graphs) as inside:
        assert isinstance(inside, dynrun.optimize)
        for _ in range(3):
            f(torch.ones(2))
        with dynrun.optimize():
            f(torch.ones(2))
        f(torch.ones(2))
    f(torch.ones(2))
    assert len(graphs.modules) == 1 and graphs.calls == 3, (len(graphs.modules), graphs.calls)

    def fails():
        with dynrun.optimize(backend=graphs):
            raise KeyError("out")

    raises(KeyError, fails)
    f(torch.ones(3))
    assert len(graphs.modules) == 1

    @dynrun.optimize(fullgraph=True)
    def branches(x):
        return x if x.sum() > 0 else -x

    raises(RuntimeError, lambda: branches(torch.ones(2)), "fullgraph=True")


def test_scope_is_of_one_thread():
    graphs, seen = Graphs(), []

    def f(x):
        return x.sin()

    def other():
        f(torch.ones(2))
        seen.append(len(graphs.modules))

    with dynrun.optimize(backend=graphs):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        f(torch.ones(2))
    assert seen == [0] and len(graphs.modules) == 1, (seen, len(graphs.modules))


def test_graph_break():
    graphs = Graphs()

    def f(x):
        x = x.sin()
        dynrun.graph_break("here")
        return x.cos()

    fast = dynrun.compile(f, backend=graphs)
    for _ in range(4):
        same(fast(torch.ones(2)), torch.ones(2).sin().cos())
    assert [graphs.names(0), graphs.names(1)] == [["aten::sin"], ["aten::cos"]] and len(graphs.modules) == 2
    assert "graph-break" in [found["id"] for found in dynrun.stats()["graph_breaks"]]
    raises(RuntimeError, lambda: dynrun.compile(f, fullgraph=True)(torch.ones(2)), "dynrun.graph_break", "remove the call")


def test_disable_inside():
    graphs = Graphs()

    @dynrun.disable
    def apart(x):
        return x.exp()

    fast = dynrun.compile(lambda x: apart(x + 1) * 2, backend=graphs)
    for _ in range(4):
        same(fast(torch.zeros(2)), torch.full((2,), 2 * 2.718281828))
    assert [graphs.names(0), graphs.names(1)] == [["aten::add.Tensor"], ["aten::mul.Tensor"]] and len(graphs.modules) == 2, [graphs.names(i) for i in range(len(graphs.modules))]
    assert "disabled" in [found["id"] for found in dynrun.stats()["graph_breaks"]]


def test_many_compiled_functions():
    """Each has recordings of its own, however many share one function; a back end sees what they have in common once."""
    graphs = Graphs()
    layers = [dynrun.compile(Layer(), backend=graphs) for _ in range(40)]
    x = torch.ones(1, 3)
    for _ in range(3):
        for layer in layers:
            same(layer(x), layer._orig_mod.linear(x).relu())
    assert len(graphs.modules) == 1 and graphs.calls == 80, (len(graphs.modules), graphs.calls)


def test_wrong_arguments():
    raises(TypeError, lambda: dynrun.compile(3), "takes a function or a module")
    raises(TypeError, lambda: dynrun.compile(3, fullgraph=True), "takes a function or a module")
    raises(TypeError, lambda: dynrun.compile(lambda x: x, dynamic="yes"), "None, True or False")
    raises(TypeError, lambda: dynrun.compile(lambda x: x, fullgraph=3), "True or False")
    raises(TypeError, lambda: dynrun.compile(lambda x: x, nope=3), "nope")


def test_reset_forgets():
    graphs = Graphs()
    fast = dynrun.compile(lambda x: x.sin(), backend=graphs)
    fast(torch.ones(2))
    dynrun.reset()
    fast(torch.ones(2))
    assert len(graphs.modules) == 2


def test_optimize_with_fullgraph():
    def f(x):
        return x.sin() + 1

    for _ in range(3):
        with dynrun.optimize(fullgraph=True):
            same_size = f(torch.ones(2))
        assert same_size.shape == (2,)
    raises(KeyError, lambda: fails_inside(f), "out")
    f(torch.ones(2)) if f(torch.ones(2)).sum() > 0 else None  # nothing is left of the scope


def fails_inside(f):
    with dynrun.optimize(fullgraph=True):
        f(torch.ones(2))
        raise KeyError("out")


def test_one_optimize_in_two_threads():
    graphs, entered, leave = Graphs(), threading.Event(), threading.Event()
    shared = dynrun.optimize(backend=graphs)

    def other():
        with shared:
            entered.set()
            leave.wait()
        dynrun.compile(lambda x: x)  # the thread's own scope again

    with dynrun.optimize(backend="eager"):
        with shared:
            thread = threading.Thread(target=other)
            thread.start()
            entered.wait()
        (lambda x: x.cos())(torch.ones(2))
        assert not graphs.modules
    leave.set()
    thread.join()
    (lambda x: x.sin())(torch.ones(2))
    assert not graphs.modules


@dynrun.disable
def module_level(x):
    return x * 2


def test_what_may_be_disabled():
    import asyncio
    import inspect
    import types

    module = torch.nn.Linear(3, 3)
    apart = dynrun.disable(module)
    assert [name for name, _ in torch.nn.Sequential(apart).named_parameters()] and apart.weight is module.weight
    same(apart(torch.ones(1, 3)), module(torch.ones(1, 3)))
    same(pickle.loads(pickle.dumps(apart))(torch.ones(1, 3)), module(torch.ones(1, 3)))
    assert pickle.loads(pickle.dumps(module_level)) is module_level and inspect.isfunction(module_level)

    @dynrun.disable
    def steps(x):
        got = yield x.cos() + 1
        return got

    @dynrun.disable
    async def waits(x):
        await asyncio.sleep(0)
        return x.sin() + 1

    @dynrun.disable
    class Scaled(torch.nn.Module):
        def forward(self, x):
            return x * 2 + 1

    @dynrun.disable
    async def items(x):
        try:
            got = yield x.tan()
        except ValueError as error:
            got = yield error
        yield got

    @dynrun.disable
    @types.coroutine
    def gives(x):
        return (yield x)

    class Holder:
        @dynrun.disable
        @staticmethod
        def double(x):
            return x * 2

        @dynrun.compile(backend="eager")
        @classmethod
        def triple(cls, x):
            return x * 3

    async def all_of(running):
        return [await running.asend(None), str(await running.athrow(ValueError("thrown"))), await running.asend(7), [item async for item in running]]

    async def awaits(x):
        return await gives(x)

    assert inspect.isasyncgenfunction(items)
    assert inspect.isgeneratorfunction(steps) and inspect.iscoroutinefunction(waits) and isinstance(Scaled(), Scaled)
    scaled = Scaled()
    for _ in range(6):
        running = steps(torch.ones(2))
        same(next(running), torch.ones(2).cos() + 1)
        raises(StopIteration, lambda: running.send(5), "5")
        same(asyncio.run(waits(torch.ones(2))), torch.ones(2).sin() + 1)
        same(scaled(torch.ones(2)), torch.full((2,), 3.0))
        first, *others = asyncio.run(all_of(items(torch.ones(2))))
        same(first, torch.ones(2).tan())
        assert others == ["thrown", 7, []], others
        waiting = awaits(3)
        assert waiting.send(None) == 3
        raises(StopIteration, lambda: waiting.send(4), "4")
        assert Holder.double(2) == Holder().double(2) == 4 and Holder.triple(2) == Holder().triple(2) == 6
    own = [found for found in dynrun.stats()["segments"] if found["file"] == __file__]
    assert not own, own
    raises(TypeError, lambda: dynrun.disable(3), "not 'int'")


def test_errors_that_name_the_cure():
    @dynrun.optimize
    def forgotten(x):
        return x

    raises(TypeError, lambda: forgotten(torch.ones(2)), "@dynrun.optimize()")
    raises(RuntimeError, lambda: dynrun.compile(lambda x: x, mode="zzz"), "Unrecognized mode=zzz")

    def breaks(x):
        dynrun.graph_break("because of y")
        return x + 1

    raises(RuntimeError, lambda: dynrun.compile(breaks, fullgraph=True)(torch.ones(2)), "because of y")


def test_the_break_that_is_told():
    """Inside of a `with`, whose end would have one of its own."""
    import contextlib

    @contextlib.contextmanager
    def block():
        yield

    def branches(x):
        with block():
            return x + 1 if x.sum() > 0 else x

    fast = dynrun.compile(branches, fullgraph=True)
    other = dynrun.compile(lambda x: x * 2 if x.sum() > 0 else x, fullgraph=True, backend="eager")
    for _ in range(3):
        raises(RuntimeError, lambda: fast(torch.ones(2)), "a branch on a tensor's value")
        try:
            fast(torch.ones(2))
        except RuntimeError:  # its handler is none of the function's own
            raises(RuntimeError, lambda: fast(torch.ones(2)), "a branch on a tensor's value")
            raises(RuntimeError, lambda: other(torch.ones(2)), "a branch on a tensor's value")
