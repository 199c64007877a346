#!/usr/bin/env python3
"""Guard tests: change one thing that recorded code read; the new answer is right, and going back finds the old segment.

Run as `dynrun tests/lang/guards.py [--filter NAMES]`. Each case is a generator function that yields (label, callable, arguments)
states: "old" before and after, "new" between. Every state is called four times compiled and compared with a call that dynrun
leaves alone; in the last "old" state nothing may be recorded anew. Cases marked `dropped` change something that a fold was made
from in place: there the old segment need not survive.
"""

import argparse
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "models"))

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

import torch  # noqa: E402
from torch import nn  # noqa: E402

CASES = {}


def case(dropped=False):
    def register(function):
        CASES[function.__name__] = (function, dropped)
        return function
    return register


def network():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3)).eval()
    return model, (torch.randn(2, 1, 4, 4),)


def no_grad(function):
    def run(*args):
        with torch.no_grad():
            return function(*args)
    return run


def pointwise(x):
    return (x * 2 + 1) / 3


def states(function, old, new):
    yield "old", function, old
    yield "new", function, new
    yield "old", function, old


@case()
def input_dtype():
    yield from states(pointwise, (torch.ones(4),), (torch.ones(4, dtype=torch.float64),))


@case()
def input_shape():
    yield from states(lambda x: x.softmax(-1) * x.shape[0], (torch.ones(4, 3),), (torch.ones(3, 5),))


@case()
def input_strides():
    yield from states(lambda x: (x + 1, x.stride()), (torch.ones(4, 4),), (torch.ones(4, 4).t()[:, :],))


@case()
def input_strides_channels_last():
    model, (x,) = network()
    yield from states(no_grad(model), (x,), (x.repeat(1, 1, 1, 1).to(memory_format=torch.channels_last),))


@case()
def input_device():
    yield from states(lambda x: x.sin() + 1, (torch.ones(3),), (torch.ones(3, device="meta"),))


@case()
def input_requires_grad():
    yield from states(lambda x: (x * x).sum(), (torch.ones(3),), (torch.ones(3, requires_grad=True),))


@case()
def grad_mode():
    layer = nn.Linear(3, 3)
    x = torch.ones(1, 3)
    for flag in (True, False, True):
        with torch.set_grad_enabled(flag):
            yield ("old" if flag else "new"), layer, (x,)


@case()
def inference_mode():
    layer = nn.Linear(3, 3)
    x = torch.ones(1, 3)
    for flag in (False, True, False):
        with torch.inference_mode(flag):
            yield ("new" if flag else "old"), layer, (x,)


@case()
def autocast():
    layer = nn.Linear(3, 3)
    x = torch.ones(1, 3)
    for flag in (False, True, False):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16, enabled=flag):
            yield ("new" if flag else "old"), layer, (x,)


@case()
def default_dtype():
    def function(x):
        return torch.ones(3) * x + torch.arange(3) / 2

    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        yield ("new" if dtype is torch.float64 else "old"), function, (2,)


@case()
def scalar_argument():
    x = torch.ones(3)
    yield from states(lambda x, k: x * k if k > 2 else x + k, (x, 3.5), (x, 1.5))


@case()
def scalar_type():
    x = torch.arange(3)
    yield from states(lambda x, k: x * k, (x, 2), (x, 2.0))


@case()
def global_value():
    space = {"torch": torch, "SCALE": 2.0}
    exec("def function(x):\n    return x * SCALE\n", space)
    for value in (2.0, 3.0, 2.0):
        space["SCALE"] = value
        yield ("new" if value == 3.0 else "old"), space["function"], (torch.ones(3),)


@case()
def closure_cell():
    scale = 2.0

    def function(x):
        return x * scale

    for scale in (2.0, 3.0, 2.0):
        yield ("new" if scale == 3.0 else "old"), function, (torch.ones(3),)


@case()
def module_attribute():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0

        def forward(self, x):
            return x * self.scale

    model = Model()
    for value in (2.0, 3.0, 2.0):
        model.scale = value
        yield ("new" if value == 3.0 else "old"), model, (torch.ones(3),)


@case()
def training_flag():
    model, inputs = network()
    model[1].momentum = 0.0
    for flag in (False, True, False):
        model.train(flag)
        yield ("new" if flag else "old"), no_grad(model), inputs


@case()
def parameter_replaced():
    model, inputs = network()
    old, new = model[0].weight, nn.Parameter(torch.randn(4, 1, 3, 3))
    for weight in (old, new, old):
        model[0].weight = weight
        yield ("new" if weight is new else "old"), no_grad(model), inputs


@case()
def parameter_data_swapped():
    model, inputs = network()
    old, new = model[4].weight.data, torch.randn(3, 16)
    for data in (old, new, old):
        model[4].weight.data = data
        yield ("new" if data is new else "old"), no_grad(model), inputs


@case(dropped=True)
def parameter_data_written():
    model, inputs = network()
    for factor in (1.0, 2.0, 0.5):
        for parameter in model.parameters():
            parameter.data.mul_(factor)
        yield ("new" if factor == 2.0 else "old"), no_grad(model), inputs


@case(dropped=True)
def parameter_written():
    model, inputs = network()
    for factor in (1.0, 2.0, 0.5):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(factor)
        yield ("new" if factor == 2.0 else "old"), no_grad(model), inputs


@case(dropped=True)
def parameter_numpy_alias_before():
    model, inputs = network()
    alias = model[0].weight.detach().numpy()
    for factor in (1.0, 2.0, 0.5):
        alias *= factor
        yield ("new" if factor == 2.0 else "old"), no_grad(model), inputs


@case(dropped=True)
def parameter_numpy_alias_after():
    model, inputs = network()
    yield "old", no_grad(model), inputs
    alias = model[0].weight.detach().numpy()
    for factor in (2.0, 0.5):
        alias *= factor
        yield ("new" if factor == 2.0 else "old"), no_grad(model), inputs


@case(dropped=True)
def buffer_written():
    model, inputs = network()
    for by in (0.0, 1.0, -1.0):
        model[1].running_mean += by
        yield ("new" if by == 1.0 else "old"), no_grad(model), inputs


@case()
def hook_added():
    model, inputs = network()
    yield "old", no_grad(model), inputs
    handle = model[2].register_forward_hook(lambda module, args, out: out * 2)
    yield "new", no_grad(model), inputs
    handle.remove()
    yield "old", no_grad(model), inputs


@case()
def global_hook_added():
    model, inputs = network()
    yield "old", no_grad(model), inputs
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out + 1)
    yield "new", no_grad(model), inputs
    handle.remove()
    yield "old", no_grad(model), inputs


@case()
def method_patched_on_class():
    class Model(nn.Module):
        def mix(self, x):
            return x * 2

        def forward(self, x):
            return self.mix(x) + 1

    model, old = Model(), Model.mix
    for method in (old, lambda self, x: x - 5, old):
        Model.mix = method
        yield ("old" if method is old else "new"), model, (torch.ones(3),)


@case()
def method_patched_on_instance():
    model, inputs = network()
    yield "old", no_grad(model), inputs
    model[2].forward = types.MethodType(lambda self, x: x * 3, model[2])
    yield "new", no_grad(model), inputs
    del model[2].forward
    yield "old", no_grad(model), inputs


@case()
def library_function_patched():
    old, module = torch.nn.functional.relu, nn.ReLU()
    for function in (old, lambda x, inplace=False: x - 7, old):
        torch.nn.functional.relu = function
        yield ("old" if function is old else "new"), module, (torch.ones(3),)


@case()
def function_code_replaced():
    def function(x):
        return x + 1

    def other(x):
        return x - 1

    old = function.__code__
    for code in (old, other.__code__, old):
        function.__code__ = code
        yield ("old" if code is old else "new"), function, (torch.ones(3),)


@case()
def list_length():
    scales = [1.0, 2.0]

    def function(x):
        for scale in scales:
            x = x * scale + 1
        return x

    yield "old", function, (torch.ones(3),)
    scales.append(3.0)
    yield "new", function, (torch.ones(3),)
    scales.pop()
    yield "old", function, (torch.ones(3),)


@case()
def list_item():
    scales = [1.0, 2.0]
    for value in (2.0, 5.0, 2.0):
        scales[1] = value
        yield ("new" if value == 5.0 else "old"), (lambda x: x * scales[0] + scales[1]), (torch.ones(3),)


@case()
def module_list_length():
    layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)])
    del layers[2]  # from here on each deletion makes a new OrderedDict of modules: found by its keys, not by what it is

    def function(x):
        for layer in layers:
            x = layer(x)
        return x

    yield "old", no_grad(function), (torch.ones(1, 3),)
    layers.append(nn.Linear(3, 3))
    yield "new", no_grad(function), (torch.ones(1, 3),)
    del layers[2]
    yield "old", no_grad(function), (torch.ones(1, 3),)


@case()
def dict_key():
    config = {"scale": 2.0}

    def function(x):
        return x * config["scale"] + (1 if "bias" in config else 0)

    yield "old", function, (torch.ones(3),)
    config["bias"] = True
    yield "new", function, (torch.ones(3),)
    del config["bias"]
    yield "old", function, (torch.ones(3),)


@case()
def argument_dict_key():
    def function(batch):
        return sum(batch.values()) * len(batch)

    old, new = {"x": torch.ones(3)}, {"x": torch.ones(3), "y": torch.ones(3)}
    yield from states(function, (old,), (new,))


@case()
def default_argument():
    def function(x, scale=2.0):
        return x * scale

    for value in (2.0, 3.0, 2.0):
        function.__defaults__ = (value,)
        yield ("new" if value == 3.0 else "old"), function, (torch.ones(3),)


@case()
def inputs_aliased():
    def function(x, y):
        x = x.clone()
        return x + y, x is y

    a, b = torch.ones(3), torch.ones(3)
    yield from states(function, (a, b), (a, a))


def changed(function, args, change, back):
    """The same call before, under and after a change of the world."""
    yield "old", function, args
    change()
    yield "new", function, args
    back()
    yield "old", function, args


class Holder:
    def __init__(self, **parts):
        self.__dict__.update(parts)


def held(scale=2.0):
    holder = Holder(scale=scale, inner=Holder(shift=1.0))
    return holder, lambda x: x * holder.scale + holder.inner.shift


@case()
def attribute_through_the_dict():
    holder, function = held()
    yield from changed(function, (torch.ones(3),), lambda: holder.__dict__.__setitem__("scale", 5.0),
                       lambda: vars(holder).__setitem__("scale", 2.0))


@case()
def attribute_by_update():
    holder, function = held()
    yield from changed(function, (torch.ones(3),), lambda: holder.inner.__dict__.update(shift=7.0),
                       lambda: setattr(holder.inner, "shift", 1.0))


@case()
def dict_cleared_and_filled():
    table = {"scale": 2.0}

    def refill(value):
        table.clear()
        table["scale"] = value

    yield from changed(lambda x: x * table["scale"], (torch.ones(3),), lambda: refill(3.0), lambda: refill(2.0))


@case()
def dict_replaced_by_a_copy():
    holder, function = held()
    old = holder.__dict__
    yield from changed(function, (torch.ones(3),), lambda: setattr(holder, "__dict__", {**old, "scale": 4.0}),
                       lambda: setattr(holder, "__dict__", old))


@case()
def dict_filled_as_a_copy():
    table = {}

    def function(x):
        return x * 2 if "scale" not in table else x * table["scale"]

    yield from changed(function, (torch.ones(3),), lambda: table.update({"scale": 5.0}), lambda: table.pop("scale"))


@case()
def inner_object_replaced():
    holder, function = held()
    old = holder.inner
    yield from changed(function, (torch.ones(3),), lambda: setattr(holder, "inner", Holder(shift=9.0)),
                       lambda: setattr(holder, "inner", old))


@case()
def object_reborn():
    """The old object dies and another of its class, maybe at its address, takes its place; an equal one then finds the old segment."""
    space = {"torch": torch, "holder": held()[0]}
    exec("def function(x):\n    return x * holder.scale + holder.inner.shift\n", space)

    def replace(scale):
        space["holder"] = None
        space["holder"] = held(scale)[0]

    yield from changed(space["function"], (torch.ones(3),), lambda: replace(6.0), lambda: replace(2.0))


@case()
def dict_reborn():
    cell = [{"scale": 2.0}]

    def replace(scale):
        cell[0] = None
        cell[0] = {"scale": scale}

    yield from changed(lambda x: x * cell[0]["scale"], (torch.ones(3),), lambda: replace(6.0), lambda: replace(2.0))


@case()
def attribute_of_a_base_class():
    class Base:
        scale = 2.0

    class Derived(Base):
        pass

    derived = Derived()
    yield from changed(lambda x: x * derived.scale, (torch.ones(3),), lambda: setattr(Base, "scale", 3.0), lambda: setattr(Base, "scale", 2.0))


@case()
def attribute_shadowed_on_the_object():
    class Base:
        scale = 2.0

    derived = Base()
    yield from changed(lambda x: x * derived.scale, (torch.ones(3),), lambda: vars(derived).update(scale=3.0), lambda: delattr(derived, "scale"))


@case()
def class_of_an_object():
    class One:
        def scaled(self, x):
            return x * 2

    class Two:
        def scaled(self, x):
            return x * 3

    thing = One()
    yield from changed(lambda x: thing.scaled(x), (torch.ones(3),), lambda: setattr(thing, "__class__", Two), lambda: setattr(thing, "__class__", One))


@case()
def bases_of_a_class():
    class One:
        def scaled(self, x):
            return x * 2

    class Two:
        def scaled(self, x):
            return x * 3

    class Own(One):
        pass

    thing = Own()
    yield from changed(lambda x: thing.scaled(x), (torch.ones(3),), lambda: setattr(Own, "__bases__", (Two,)), lambda: setattr(Own, "__bases__", (One,)))


@case()
def module_in_sys_modules():
    fake, other = types.ModuleType("dynrun_guard_test"), types.ModuleType("dynrun_guard_test")
    fake.scale, other.scale = 2.0, 4.0
    sys.modules["dynrun_guard_test"] = fake

    def function(x):
        import dynrun_guard_test
        return x * dynrun_guard_test.scale

    yield from changed(function, (torch.ones(3),), lambda: sys.modules.__setitem__("dynrun_guard_test", other),
                       lambda: sys.modules.__setitem__("dynrun_guard_test", fake))


@case()
def module_attribute():
    fake = types.ModuleType("dynrun_guard_test_2")
    fake.scale = 2.0
    yield from changed(lambda x: x * fake.scale, (torch.ones(3),), lambda: exec("scale = 5.0", vars(fake)), lambda: setattr(fake, "scale", 2.0))


@case()
def global_shadows_a_builtin():
    space = {"torch": torch}
    exec("def function(x):\n    return x * abs(-2)\n", space)
    yield from changed(space["function"], (torch.ones(3),), lambda: exec("abs = lambda x: 7", space), lambda: exec("del abs", space))


@case()
def code_of_a_function():
    def helper(x):
        return x * 2

    def other(x):
        return x * 3

    old = helper.__code__
    yield from changed(lambda x: helper(x), (torch.ones(3),), lambda: setattr(helper, "__code__", other.__code__),
                       lambda: setattr(helper, "__code__", old))


@case()
def defaults_of_a_function():
    def helper(x, scale=2.0, *, shift=1.0):
        return x * scale + shift

    yield from changed(lambda x: helper(x), (torch.ones(3),), lambda: setattr(helper, "__defaults__", (3.0,)),
                       lambda: setattr(helper, "__defaults__", (2.0,)))


@case()
def keyword_defaults_of_a_function():
    def helper(x, *, shift=1.0):
        return x + shift

    yield from changed(lambda x: helper(x), (torch.ones(3),), lambda: helper.__kwdefaults__.update(shift=4.0),
                       lambda: setattr(helper, "__kwdefaults__", {"shift": 1.0}))


@case()
def cell_of_a_closure():
    def make(scale):
        return lambda x: x * scale

    function = make(2.0)

    def put(value):
        function.__closure__[0].cell_contents = value

    yield from changed(function, (torch.ones(3),), lambda: put(3.0), lambda: put(2.0))


@case()
def item_of_a_nested_list():
    rows = [[2.0], (1.0, [3.0])]
    yield from changed(lambda x: x * rows[0][0] + rows[1][1][0], (torch.ones(3),), lambda: rows[1][1].__setitem__(0, 8.0),
                       lambda: rows[1][1].__setitem__(0, 3.0))


@case()
def slot_of_an_object():
    class Slotted:
        __slots__ = ("scale",)

    thing = Slotted()
    thing.scale = 2.0
    yield from changed(lambda x: x * thing.scale, (torch.ones(3),), lambda: setattr(thing, "scale", 3.0), lambda: setattr(thing, "scale", 2.0))


@case()
def getter_of_a_property():
    class Owner:
        scale = property(lambda self: 2.0)

    thing, old = Owner(), Owner.scale.fget
    yield from changed(lambda x: x * thing.scale, (torch.ones(3),), lambda: Owner.scale.__init__(lambda self: 3.0), lambda: Owner.scale.__init__(old))


@case()
def parameter_in_the_parameters_dict():
    layer = nn.Linear(3, 3)
    old, other = layer.weight, nn.Parameter(torch.ones(3, 3))
    yield from changed(no_grad(layer), (torch.ones(1, 3),), lambda: layer._parameters.update(weight=other),
                       lambda: layer._parameters.__setitem__("weight", old))


@case()
def submodule_in_the_modules_dict():
    model, inputs = network()
    old = model._modules["2"]
    yield from changed(no_grad(model), inputs, lambda: model._modules.update({"2": nn.Tanh()}), lambda: model._modules.__setitem__("2", old))


@case()
def one_function_over_several_objects():
    """Roots that differ from call to call: each has its own values, and none is taken for another."""
    owners = [Holder(scale=float(i), inner=Holder(shift=0.5)) for i in range(4)]

    def function(x, owner):
        return x * owner.scale + owner.inner.shift

    for owner in owners:
        yield "new", function, (torch.ones(3), owner)
    owners[0].scale = 11.0
    yield "new", function, (torch.ones(3), owners[0])
    owners[0].scale = 0.0
    for owner in owners:
        yield "old", function, (torch.ones(3), owner)


@case(dropped=True)
def key_that_changes_all_the_time():
    state = Holder(turn=0.0, scale=2.0)

    def function(x):
        return x * state.scale + state.turn

    for turn in range(8):
        state.turn = float(turn)
        yield "new", function, (torch.ones(3),)
    state.scale = 3.0
    yield "new", function, (torch.ones(3),)


@case()
def aliased_dict():
    """One dict under two names: a write through either is seen."""
    table = {"scale": 2.0}
    holder = Holder(table=table)
    yield from changed(lambda x: x * holder.table["scale"], (torch.ones(3),), lambda: table.__ior__({"scale": 6.0}), lambda: table.update(scale=2.0))


def comparable(value):
    """Results with what must be equal beside the numbers."""
    if isinstance(value, torch.Tensor):
        data = None if value.is_meta else value.detach().clone()
        return [str(value.dtype), tuple(value.shape), value.stride(), value.requires_grad, str(value.device)], data
    if isinstance(value, (tuple, list)):
        return [comparable(item) for item in value]
    return value


def compare(label, results, expected):
    problems = []
    for turn, got in enumerate(results):
        try:
            torch.testing.assert_close(flat(comparable(got)), flat(comparable(expected)))
        except AssertionError as error:
            problems.append(f"{label}, call {turn}: " + " ".join(str(error).split())[:300])
    return problems


def check(name):
    function, dropped = CASES[name]
    torch.set_num_threads(1)
    problems, segments = [], []
    for label, target, args in function():
        expected = harness.eagerly(dynrun, harness.thunk(target, args))()
        # This frame takes no tensors, so it never becomes hot: only the target is recorded, at its first call.
        target = dynrun.compile(target)
        before = dynrun.stats()["segments_compiled"]
        results = [target(*args) for _ in range(4)]
        segments.append(dynrun.stats()["segments_compiled"] - before)
        problems += harness.eagerly(dynrun, harness.thunk(compare, (f"{label} {len(segments)}", results, expected)))()
    if harness.is_real(dynrun):
        if segments[0] == 0:
            problems.append("nothing was recorded")
        if not dropped and segments[-1] != 0:
            problems.append(f"going back recorded anew: {segments}")
    return problems


def flat(value):
    """Every leaf in order as a tensor; text becomes the numbers of its letters."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in flat(item)]
    if isinstance(value, (torch.Tensor, int, float)):
        return [torch.as_tensor(value)]
    return [torch.tensor([ord(letter) for letter in str(value)])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only cases whose name contains one of these (comma separated)")
    options = parser.parse_args()
    wanted = [part for part in options.filter.split(",") if part]
    passed = failed = 0
    for name in CASES:
        if wanted and not any(part in name for part in wanted):
            continue
        answer = harness.in_child(check, name)
        problems = [answer["error"]] if "error" in answer else answer["value"]
        passed, failed = passed + (not problems), failed + bool(problems)
        for problem in problems:
            print(f"FAIL {name}: {problem}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
