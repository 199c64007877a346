"""Custom back ends: what they are given, how often, and what becomes of what they return."""

import importlib
import pathlib
import sys
import tempfile

import dynrun
import numpy as np
import torch
from support import Graphs, raises, same


def test_each_graph_once():
    graphs = Graphs()
    f = dynrun.compile(lambda x, y: torch.relu(x) + y, backend=graphs)
    for step in range(5):
        x, y = torch.randn(2, 3), torch.randn(3)
        same(f(x, y), torch.relu(x) + y)
    assert len(graphs.modules) == 1 and graphs.calls == 4, (len(graphs.modules), graphs.calls)
    assert graphs.names() == ["aten::relu", "aten::add.Tensor"], graphs.names()
    assert [tuple(value.shape) for value in graphs.inputs[0]] == [(2, 3), (3,)]


class Block(torch.nn.Module):
    def __init__(self, size=3, scale=2.0):
        super().__init__()
        self.linear, self.scale = torch.nn.Linear(3, size), scale

    def forward(self, x):
        return self.linear(x) * self.scale


def test_alike_modules_are_one_graph():
    """Parameters are inputs: other sizes, other numbers and other functions are other graphs, other weights are not."""
    graphs, x = Graphs(), torch.randn(2, 3)

    def runs(module, call):
        for _ in range(2):
            same(call(x), module.linear(x) * module.scale)
        return len(graphs.modules)

    blocks = [Block() for _ in range(4)]
    for block in blocks:
        block.compile(backend=graphs)
    assert [runs(block, block) for block in blocks] == [1] * 4
    blocks = [Block(), Block(size=4), Block(size=4), Block(scale=0.5), Block(), Block(scale=0.5)]
    assert [runs(block, torch.compile(block, backend=graphs)) for block in blocks] == [1, 2, 2, 3, 3, 3]
    block = blocks[0]
    assert runs(block, torch.compile(lambda x: block.linear(x) * 2.0, backend=graphs)) == 4
    with torch.no_grad():
        assert runs(block, torch.compile(block, backend=graphs)) == 5
    assert runs(block, torch.compile(block, backend=Graphs())) == 5
    torch._dynamo.reset()
    assert [runs(block, torch.compile(block, backend=graphs)) for block in (blocks[0], blocks[4])] == [6, 6]


def test_alike_modules_learn():
    """Code that is shared gives each module its own gradients."""
    graphs, x = Graphs(), torch.randn(2, 3)
    blocks = [Block() for _ in range(3)]
    for block in blocks:
        fast = torch.compile(block, backend=graphs)
        for _ in range(3):
            block.zero_grad()
            fast(x).square().sum().backward()
        got = [parameter.grad.clone() for parameter in block.parameters()]
        block.zero_grad()
        (block.linear(x) * 2).square().sum().backward()
        for grad, parameter in zip(got, block.parameters()):
            same(grad, parameter.grad)
    assert len(graphs.modules) == 1


def test_alike_modules_that_share_memory():
    """What AOTAutograd makes of inputs that overlap, where one of them is written, holds for no others."""
    class Two(torch.nn.Module):
        def __init__(self, a, b):
            super().__init__()
            self.a, self.b = a, b

        def forward(self, x):
            self.a.add_(x)
            return self.b.flip(0) * 2

    for backend in "aot_eager", "inductor", Graphs():
        for apart in True, False, True, False:
            a = torch.zeros(3)
            two = Two(a, torch.zeros(3) if apart else a.view(3))
            fast = dynrun.compile(two, backend=backend)
            for step in range(1, 4):
                same(fast(torch.ones(3)), torch.full((3,), 0.0 if apart else 2.0 * step))
                same(two.a, torch.full((3,), float(step)))


def test_alike_modules_that_are_not_quite():
    """Conjugated weights, and settings that code is made for, are told apart."""
    class Imaginary(torch.nn.Module):
        def __init__(self, w):
            super().__init__()
            self.w = w

        def forward(self, x):
            return self.w.imag + x

    weights = torch.tensor([1 + 2j])
    for w in (weights, weights.conj(), weights, weights.conj()):
        fast = torch.compile(Imaginary(w), backend="aot_eager")
        for _ in range(3):
            same(fast(torch.ones(1)), w.imag + 1)
    graphs = Graphs()
    for deterministic in False, True, False:
        torch.use_deterministic_algorithms(deterministic)
        fast = torch.compile(Block(), backend=graphs)
        for _ in range(2):
            fast(torch.ones(2, 3))
    torch.use_deterministic_algorithms(False)
    assert len(graphs.modules) == 2, len(graphs.modules)


def test_inputs_come_in_torch_compiles_order():
    """Weights before what the operator that uses them is given besides; tensors that were asked for their sizes first."""
    nn = torch.nn
    image, rows = torch.ones(2, 3, 8, 8), torch.ones(2, 4)
    for module, input, order in ((nn.Linear(4, 5), rows, [(5, 4), (5,), (2, 4)]), (nn.Conv2d(3, 4, 3), image, [(4, 3, 3, 3), (4,), (2, 3, 8, 8)]),
                                 (nn.LayerNorm(4), rows, [(4,), (4,), (2, 4)]), (nn.BatchNorm2d(3).eval(), image, [(2, 3, 8, 8)] + [(3,)] * 4),
                                 (nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 6)), rows, [(5, 4), (5,), (2, 4), (6, 5), (6,)])):
        graphs = Graphs()
        torch.compile(module, backend=graphs)(input)
        assert [tuple(value.shape) for value in graphs.inputs[0]] == order, (module, [tuple(value.shape) for value in graphs.inputs[0]])


def test_sizes_that_change_are_one_more_graph():
    graphs = Graphs()
    f = dynrun.compile(lambda x: (x.reshape(-1, 2) * x.shape[0]).sum(0), backend=graphs)
    for size in (2, 4, 6, 8, 10, 4):
        x = torch.randn(size, 2)
        same(f(x), (x.reshape(-1, 2) * size).sum(0))
    assert len(graphs.modules) == 2, len(graphs.modules)


def test_dynamic_from_the_start():
    graphs = Graphs()
    f = dynrun.compile(lambda x: x.sin().sum(0), backend=graphs, dynamic=True)
    for size in (2, 4, 6, 8):
        f(torch.randn(size, 3))
    assert len(graphs.modules) == 1, len(graphs.modules)


def test_numbers_that_change_are_inputs():
    graphs = Graphs()

    class Counter:
        def __init__(self):
            self.step = 0

        def __call__(self, x):
            self.step += 1
            return x * self.step

    counter = Counter()
    f = dynrun.compile(counter, backend=graphs)
    for step in range(1, 8):
        same(f(torch.ones(2)), torch.full((2,), float(step)))
    assert len(graphs.modules) <= 2, len(graphs.modules)


def test_arguments_keep_their_names():
    graphs = Graphs()

    class Scaled(torch.nn.Module):
        def forward(self, pixels, factor):
            return pixels * factor

    def f(x, pair, *, scale):
        return x + pair[0] * scale

    def within(weight):
        return lambda x, *more: x * weight + more[0]

    a, b = torch.ones(2), torch.ones(2) * 2
    dynrun.compile(f, backend=graphs)(a, [b], scale=torch.ones(1))
    dynrun.compile(Scaled(), backend=graphs)(a, factor=b)
    dynrun.compile(within(a + b), backend=graphs)(a, b)
    dynrun.compile(torch.nn.Sequential(torch.nn.Linear(2, 2)), backend=graphs)(a)
    placeholders = [[node.name for node in module.graph.nodes if node.op == "placeholder"] for module in graphs.modules]
    assert [sorted(names) for names in placeholders] == [["pair_0", "scale", "x"], ["factor", "pixels"], ["more_0", "weight", "x"],
                                                             ["input_", "self_0_bias", "self_0_weight"]], placeholders


def test_module_with_parameters():
    graphs = Graphs()
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU()).eval()
    fast = dynrun.compile(model, backend=graphs)
    x = torch.randn(5, 4)
    for _ in range(3):
        same(fast(x), model(x))
    assert graphs.names() == ["aten::linear", "aten::batch_norm", "aten::relu"], graphs.names()
    node = next(node for node in graphs.modules[0].graph.nodes if node.op == "call_function")
    assert node.meta["val"].shape == (5, 8) and "linear.py" in node.stack_trace, node.meta
    text = graphs.modules[0].print_readable(print_output=False)
    assert "# File: " in text and "torch.ops.aten.linear.default" in text, text
    graphs.modules[0].recompile()


def test_where_operators_come_from():
    """The lines of the program that lead to an operator, and the modules whose calls it is in, as torch.compile tells them."""
    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            return self.fc(x).relu()

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([Block(), Block()])

        def forward(self, x):
            for layer in self.layers:
                x = layer(x)
            return x.sin()

    graphs = Graphs()
    dynrun.compile(Model(), backend=graphs)(torch.ones(2, 4))
    nodes = [node for node in graphs.modules[0].graph.nodes if node.op == "call_function"]
    paths = [[path for path, _ in node.meta["nn_module_stack"].values()] for node in nodes]
    first, second = ["L['self']", "L['self'].layers.0"], ["L['self']", "L['self'].layers.1"]
    assert paths == [[*first, "L['self'].layers.0.fc"], first, [*second, "L['self'].layers.1.fc"], second, ["L['self']"]], paths
    assert [type_ for _, type_ in nodes[0].meta["nn_module_stack"].values()] == [Model, Block, torch.nn.Linear]
    lines = [[line.strip() for line in node.stack_trace.splitlines()[1::2]] for node in nodes]
    assert lines[0] == ["x = layer(x)", "return self.fc(x).relu()"] and lines[4] == ["return x.sin()"], lines


def test_odd_classes_of_modules():
    """Classes that are looked through for where operators come from: no code of theirs runs, and what only looks like a module's call is none."""
    class Meta(type):
        def __getattribute__(self, name):
            if name == "__module__":
                raise RuntimeError("asked")
            return super().__getattribute__(name)

    class Odd(torch.nn.Module, metaclass=Meta):
        pass

    class Weird(torch.nn.Module):
        def forward(self, x):
            return x.tan()

    def namesake(operator):
        class Same(torch.nn.Module):
            def forward(self, x):
                return operator(x)
        return Same

    class Other:
        @classmethod
        def call(cls, x):
            return x.sin()

        call.__func__.__qualname__ = "Module._call_impl"
        call.__func__.__code__ = call.__func__.__code__.replace(co_qualname="Module._call_impl")

    Weird.__module__ = 3
    first, second = namesake(torch.sin), namesake(torch.cos)
    modules = [first(), second(), Weird()]
    graphs = Graphs()
    dynrun.compile(lambda x: Other.call(x) + modules[0](x) + modules[1](x) + modules[2](x), backend=graphs)(torch.ones(2))
    found = [type_ for node in graphs.modules[0].graph.nodes if node.op == "call_function" for _, type_ in node.meta["nn_module_stack"].values()]
    assert found == [first, second, Weird], found


def test_gradients_flow():
    for backend in ("eager", Graphs()):
        model = torch.nn.Linear(3, 2)
        fast = dynrun.compile(model, backend=backend)
        x = torch.randn(4, 3, requires_grad=True)
        for _ in range(3):
            model.zero_grad()
            x.grad = None
            fast(x).square().sum().backward()
            got = [x.grad.clone(), model.weight.grad.clone()]
            model.zero_grad()
            x.grad = None
            model(x).square().sum().backward()
            same(got, [x.grad, model.weight.grad])


def test_modes_inside():
    def f(x):
        y = x * 2
        with torch.no_grad():
            z = y + 1
        with torch.autocast("cpu", torch.bfloat16):
            w = x @ x.t()
        return y, z, w

    graphs = Graphs()
    fast = dynrun.compile(f, backend=graphs)
    x = torch.randn(3, 3, requires_grad=True)
    for _ in range(3):
        got, expected = fast(x), f(x)
        same(got, expected)
        assert [v.requires_grad for v in got] == [v.requires_grad for v in expected] and got[2].dtype == torch.bfloat16
    assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_writes_outside():
    graphs = Graphs()
    total = torch.zeros(3)

    def f(x):
        total.add_(x)
        return total * 2

    fast = dynrun.compile(f, backend=graphs)
    for step in range(1, 5):
        same(fast(torch.ones(3)), torch.full((3,), 2.0 * step))
    assert len(graphs.modules) == 1 and graphs.names()[0] == "aten::add_.Tensor", graphs.names()


def test_random_stream():
    def f(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)

    fast = dynrun.compile(f, backend="eager")
    x = torch.ones(4, 4)
    for seed in range(4):
        torch.manual_seed(seed)
        got, state = fast(x), torch.get_rng_state()
        torch.manual_seed(seed)
        same(got, f(x))
        assert torch.equal(state, torch.get_rng_state())


def test_outputs_of_every_kind():
    def f(x, y):
        a, b = x.chunk(2)
        return x, a, [b, None, 3], {"max": x.max(0), "y": y.t()}, (x > 0).sum().item() * 0 + 1

    graphs = Graphs()
    fast = dynrun.compile(f, backend=graphs)
    x, y = torch.randn(4, 3), torch.randn(2, 5)
    for _ in range(3):
        got, expected = fast(x, y), f(x, y)
        assert got[0] is x and got[1]._base is x and got[3]["y"]._base is y
        same(got[1:3], expected[1:3])
        same(tuple(got[3]["max"]), tuple(expected[3]["max"]))
        assert type(got[3]["max"]) is type(expected[3]["max"]) and got[4] == 1


def test_compiler_that_fails():
    from torch._dynamo.exc import BackendCompilerFailed

    def refuses(module, inputs):
        raise ValueError("not this one")

    fast = dynrun.compile(lambda x: x + 1, backend=refuses)
    for _ in range(3):
        raises(BackendCompilerFailed, lambda: fast(torch.ones(2)), "backend='refuses' raised", "ValueError: not this one")
    raises(BackendCompilerFailed, lambda: dynrun.compile(lambda x: x + 1, backend=lambda module, inputs: 3)(torch.ones(2)), "int instead of a callable")


def test_code_that_fails():
    """What a back end's code raises is raised; what operators raise, raises in the program's own line (below)."""
    def fails(*values):
        raise ValueError("at run time")

    fast = dynrun.compile(lambda x: x * 3, backend=Graphs(fails))
    fast(torch.ones(2))
    for _ in range(3):
        raises(ValueError, lambda: fast(torch.ones(2)), "at run time")
    total = torch.zeros(2)

    def writes(x):
        total.add_(x)
        return total + 1

    fast = dynrun.compile(writes, backend=Graphs(fails))
    fast(torch.ones(2))
    raises(ValueError, lambda: fast(torch.ones(2)), "at run time")
    short = dynrun.compile(lambda x: x * 3, backend=Graphs(lambda *values: ()))
    short(torch.ones(2))
    raises(RuntimeError, lambda: short(torch.ones(2)), "gave 0 results of a graph that has 1")


def test_operator_that_raises_in_its_line():
    def look_up(table, index):
        found = table[index]
        return found * 2

    fast = dynrun.compile(look_up, backend="eager")
    table = torch.randn(4, 2)
    for _ in range(3):
        fast(table, torch.tensor([0, 1]))
    error = raises(IndexError, lambda: fast(table, torch.tensor([0, 9])), "out of bounds")
    last = error.__traceback__
    while last.tb_next:
        last = last.tb_next
    assert last.tb_frame.f_code is look_up.__code__ and last.tb_lineno == look_up.__code__.co_firstlineno + 1


def test_same_function_with_two_back_ends():
    first, second = Graphs(), Graphs()

    def f(x):
        return x.sin()

    a, b = dynrun.compile(f, backend=first), dynrun.compile(f, backend=second)
    for _ in range(3):
        a(torch.ones(2)), b(torch.ones(2)), f(torch.ones(2))
    assert len(first.modules) == len(second.modules) == 1 and first.calls == second.calls == 2


def test_compiled_inside_compiled():
    """It is a part of the outer one."""
    inner_graphs, outer_graphs = Graphs(), Graphs()
    inner = dynrun.compile(lambda x: x.cos(), backend=inner_graphs)
    outer = dynrun.compile(lambda x: inner(x.sin()) + 1, backend=outer_graphs)
    for _ in range(4):
        same(outer(torch.ones(2)), torch.ones(2).sin().cos() + 1)
    assert not inner_graphs.modules and len(outer_graphs.modules) == 1, (len(inner_graphs.modules), len(outer_graphs.modules))


def test_names():
    assert {"dynrun", "eager", "inductor"} <= set(dynrun.list_backends())
    raises(RuntimeError, lambda: dynrun.compile(lambda x: x, backend="nope"), "Invalid backend: 'nope'")
    raises(TypeError, lambda: dynrun.compile(lambda x: x, backend=3), "a name or a callable")


def test_installed_package():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "given_backend.py").write_text("seen = []\ndef given(module, inputs):\n    seen.append(module)\n    return module.forward\n")
        (root / "given-1.0.dist-info").mkdir()
        (root / "given-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: given\nVersion: 1.0\n")
        (root / "given-1.0.dist-info" / "entry_points.txt").write_text("[torch_dynamo_backends]\ngiven = given_backend:given\n")
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        assert "given" in dynrun.list_backends()
        fast = dynrun.compile(lambda x: x + 1, backend="given")
        fast(torch.ones(2))
        import given_backend
        assert len(given_backend.seen) == 1


def test_options_are_handed_on():
    given = []

    def takes(module, inputs, *, mode=None, options=None):
        given.append((mode, options))
        return module.forward

    dynrun.compile(lambda x: x + 1, backend=takes, options={"a": [1]})(torch.ones(2))
    dynrun.compile(lambda x: x + 2, backend=takes, mode="max-autotune")(torch.ones(2))
    dynrun.compile(lambda x: x + 3, backend=takes)(torch.ones(2))
    assert given == [(None, {"a": [1]}), ("max-autotune", None), (None, None)], given


def test_modes_at_entry():
    """A graph is called in the mode that its segment began in, whichever it ended in."""
    weight = torch.randn(3, 3, requires_grad=True)

    def ends_elsewhere(x):
        with torch.no_grad():
            y = x @ weight
            dynrun.graph_break()
            z = y * 2
        return y, z, z * weight

    def without_autocast(x):
        with torch.autocast("cpu", enabled=False):
            return x.float() @ weight

    graphs = Graphs()
    first, second = dynrun.compile(ends_elsewhere, backend=graphs), dynrun.compile(without_autocast, backend=graphs)
    x = torch.randn(3, 3)
    for _ in range(4):
        got, expected = first(x), ends_elsewhere(x)
        assert [v.requires_grad for v in got] == [v.requires_grad for v in expected] == [False, False, True]
        same(got, expected)
        with torch.autocast("cpu", torch.bfloat16):
            got, expected = second(x), without_autocast(x)
        assert got.dtype is expected.dtype is torch.float32
        same(got, expected)


def test_modes_after_an_exception():
    weight = torch.randn(4, 3, requires_grad=True)

    def look_up(index):
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            return weight[index] * 2

    fast = dynrun.compile(look_up, backend="eager")
    for _ in range(3):
        fast(torch.tensor([1]))
        raises(IndexError, lambda: fast(torch.tensor([9])), "out of bounds")
        assert torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu")


def test_signal_in_a_back_ends_code():
    import signal

    def interrupted(*values):
        signal.raise_signal(signal.SIGALRM)
        return ()

    def on_alarm(number, frame):
        raise TimeoutError("alarm")

    signal.signal(signal.SIGALRM, on_alarm)
    fast = dynrun.compile(lambda x: x * 3, backend=Graphs(interrupted))
    fast(torch.ones(2))
    raises(TimeoutError, lambda: fast(torch.ones(2)), "alarm")


def test_back_end_that_resets():
    def resets(module, inputs):
        dynrun.reset()
        return module.forward

    fast = dynrun.compile(lambda x: x * 3, backend=resets)
    for _ in range(3):
        same(fast(torch.ones(2)), torch.full((2,), 3.0))


def test_rejected_elsewhere():
    """Code that was not worth recording in one scope is looked at anew in another."""
    def f(x, early):
        if early:
            return x
        return x * 2

    for _ in range(6):
        f(torch.ones(2), True)
    graphs = Graphs()
    with dynrun.optimize(backend=graphs):
        f(torch.ones(2), False)
    assert len(graphs.modules) == 1
    assert dynrun.explain(f)(torch.ones(2), False).graph_count == 1
    same(dynrun.export(f, torch.ones(2), False)(torch.ones(2) * 2, False), torch.full((2,), 4.0))


def test_reset_lets_go():
    import gc
    import weakref

    class Held:
        def __call__(self, module, inputs):
            return module.forward

    held = Held()
    gone = weakref.ref(held)
    fast = dynrun.compile(lambda x: x + 1, backend=held)
    fast(torch.ones(2)), fast(torch.ones(2))
    again = dynrun.compile(lambda x: x + 2, backend="eager")
    again(torch.ones(2))
    del held, fast
    dynrun.reset()
    gc.collect()
    assert gone() is None
    for _ in range(3):
        same(again(torch.ones(2)), torch.full((2,), 3.0))


def test_back_ends_that_trace():
    """What AOTAutograd traces holds for the example's numbers and sizes: each choice of them is traced by itself."""
    add = torch.compile(lambda x, k: x + k, backend="aot_eager")
    for k in range(6):
        same(add(torch.zeros(2), k), torch.full((2,), float(k)))
    scaled = torch.compile(lambda x: x.sum(0) * x.shape[0], backend="aot_eager", dynamic=True)
    for n in (2, 3, 4, 5, 3):
        same(scaled(torch.ones(n, 2)), torch.full((2,), float(n * n)))

    class Counter(torch.nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    counter = torch.compile(Counter(), backend="aot_eager")
    for n in range(1, 6):
        same(counter(torch.ones(2)), torch.full((2,), float(n)))


def test_data_decides_behind_a_back_end_that_traces():
    masked = torch.compile(lambda x: x[x > 1].sum(), backend="aot_eager")
    item = torch.compile(lambda x: x.sum().item() * x, backend="aot_eager")
    for n in range(4):
        x = torch.arange(4.0) + n
        same(masked(x), x[x > 1].sum())
        same(item(x), x.sum().item() * x)


def test_what_is_traced_holds_for_its_sizes():
    from torch.fx.experimental.proxy_tensor import make_fx

    def specialises(module, inputs):
        return make_fx(module)(*inputs)

    f = dynrun.compile(lambda x: x * x.shape[0], backend=specialises)
    for n in (3, 3, 4, 4, 5, 6, 4):
        assert f(torch.ones(n)).tolist() == [n] * n, n


def test_sizes_are_symbols():
    """A graph for many sizes is told from one for a single choice, as torch.compile tells it: by SymInts."""
    seen = []

    def looks(module, inputs):
        whole = [value for value in inputs if isinstance(value, torch.SymInt)]
        placeholders = [node.meta["example_value"] for node in module.graph.nodes if node.op == "placeholder"]
        symbolic = [value for value in placeholders if isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in value.shape)]
        seen.append((len(whole), len(symbolic), module.print_readable(print_output=False)))
        return module.forward

    f = torch.compile(lambda x: (x * x.shape[0]).reshape(-1, 2) + x.shape[0] // 2, backend=looks)
    for n in (4, 4, 6, 8, 10, 4):
        same(f(torch.ones(n)), torch.full((n // 2, 2), float(n + n // 2)))
    assert [found[:2] for found in seen] == [(0, 0), (2, 1)], seen
    assert "f32[4]" in seen[0][2] and "f32[s" in seen[1][2] and "//2" in seen[1][2], seen[1][2]


def test_back_end_that_asks_for_a_size():
    """Code that was made of a symbol's value holds for that value."""
    made = []

    def asks(module, inputs):
        sizes = [int(value) for value in inputs if isinstance(value, (int, torch.SymInt))]
        made.append(sizes)
        return lambda *values: (torch.full((sizes[0],), float(sizes[0])),) if sizes else module(*values)

    f = dynrun.compile(lambda x: x * x.shape[0], backend=asks)
    for n in (3, 4, 5, 6, 4, 5):
        assert f(torch.ones(n)).tolist() == [n] * n, n
    assert made == [[], [4], [5], [6]], made


def test_symbols_of_models():
    """Sizes are told through a model's operators, and none of them is wrong at another size."""
    shapes = []

    def keeps(module, inputs):
        shapes.append([tuple(node.meta["val"].shape) for node in module.graph.nodes if node.op == "call_function" and isinstance(node.meta.get("val"), torch.Tensor)])
        return module.forward

    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(4, 2)).eval()
    fast = torch.compile(model, backend=keeps)
    for n in (2, 3, 5):
        x = torch.randn(n, 3, 8, 8)
        same(fast(x), model(x))
    assert len(shapes) == 2 and all(isinstance(shape[0], torch.SymInt) for shape in shapes[1]), shapes


def test_back_end_that_needs_numbers():
    """One that runs the graph on its example inputs may meet operators that take no symbols: it is shown each choice of sizes."""
    def runs(module, inputs):
        module(*inputs)
        return module.forward

    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    f = torch.compile(lambda x: (attention(x, x, x)[0], x.new_zeros(x.shape[0] + 1, 2)), backend=runs)
    for n in (3, 4, 5, 4, 7):
        x = torch.randn(n, 2, 8)
        same(f(x), (attention(x, x, x)[0], torch.zeros(n + 1, 2)))


def test_what_is_found_out_about_sizes():
    """Two sizes that were alike need not be so at the next call: code that relies on it is not used then."""
    def relies(module, inputs):
        shapes = [node.meta["val"].shape for node in module.graph.nodes if node.op == "placeholder" and isinstance(node.meta["val"], torch.Tensor)]
        if len(shapes) == 2 and shapes[0][0] == shapes[1][0]:
            return lambda x, y: (torch.stack([x[i] + y[i] for i in range(len(x))]),)
        return module.forward

    f = dynrun.compile(lambda x, y: x + y, backend=relies)
    for n, m in ((3, 3), (4, 4), (5, 5), (1, 5), (5, 1), (6, 6)):
        x, y = torch.randn(n), torch.randn(m)
        same(f(x, y), x + y)


def test_numbers_made_of_numbers():
    """However a size was computed: what is too long to tell is a number of its own."""
    def doubles(x):
        n = x.shape[0]
        for _ in range(40):
            n = n + n
        return x * (n // 2 ** 40)

    f = dynrun.compile(doubles, backend=Graphs())
    for n in (3, 4, 5, 6):
        same(f(torch.ones(n)), torch.full((n,), float(n)))


def test_metadata_holds_at_each_size():
    """What a back end is told of every value is what it gets, at one, too, and under inference mode."""
    def told(module, inputs):
        class Checks(torch.fx.Interpreter):
            def run_node(self, node):
                got, said = super().run_node(node), node.meta.get("val")
                if isinstance(got, torch.Tensor) and isinstance(said, torch.Tensor) and all(isinstance(size, int) for size in said.shape):
                    assert got.shape == said.shape, (node, got.shape, said.shape)
                return got
        ones = [bool(node.meta["val"].shape[0] == 1) for node in module.graph.nodes if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)]
        return lambda *values: (run_checked(Checks(module), values, ones))

    def run_checked(checks, values, ones):
        assert [value.shape[0] == 1 for value in values if isinstance(value, torch.Tensor)] == ones
        return checks.run(*values)

    def pads(x):
        return torch.nn.functional.pad(x, (0, x.shape[0])) * 2

    def plain(x):
        return (x @ x.t()).relu() + x.shape[0]

    for function in (pads, plain):
        f = torch.compile(function, backend=told)
        for n in (3, 4, 5, 1, 1, 6):
            same(f(torch.ones(n, 2)), function(torch.ones(n, 2)))
    with torch.inference_mode():
        f = torch.compile(plain, backend=told)
        for n in (3, 4, 5, 6):
            same(f(torch.ones(n, 2)), plain(torch.ones(n, 2)))


def test_what_tracing_back_ends_cannot_trace():
    """Sizes that data decides, LSTMs that learn, NumPy's views, branches of torch.cond that learn: eager's results with AOTAutograd and inductor."""
    x = torch.arange(6.0)
    for function in (lambda x: x[x > 2] * 2, lambda x: x * x.sum().item(), lambda x: x.nonzero() + 1):
        fast = dynrun.compile(function, backend="inductor")
        for _ in range(2):
            same(fast(x), function(x))

    model = torch.nn.LSTM(4, 5)
    fast, x = torch.compile(model, backend="aot_eager"), torch.ones(2, 3, 4)
    for _ in range(3):
        model.zero_grad()
        fast(x)[0].sum().backward()
        got = [parameter.grad.clone() for parameter in model.parameters()]
        model.zero_grad()
        model(x)[0].sum().backward()
        same(got, [parameter.grad for parameter in model.parameters()])

    for n in (2, 5, 2, 3):
        same(fast(torch.ones(n, 3, 4)), model(torch.ones(n, 3, 4)))

    def by_array(x):
        return torch.from_numpy(np.sqrt(x.numpy())) * 2

    fast = torch.compile(by_array, backend="aot_eager")
    for _ in range(3):
        same(fast(torch.ones(3)), torch.full((3,), 2.0))

    def chooses(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) + 1

    fast = torch.compile(chooses, backend="eager", fullgraph=True)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        fast(x).sum().backward()
        same(x.grad, torch.ones(3).cos())


def test_torchs_own_explanation():
    from torch._dynamo.backends.debugging import ExplainWithBackend
    explained = ExplainWithBackend("eager")
    torch.compile(lambda x: x.sin() + 1, backend=explained)(torch.ones(3))
    assert explained.output().graph_count == 1 and explained.output().op_count == 2
