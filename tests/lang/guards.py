#!/usr/bin/env python3
"""Guard tests: change one thing that recorded code read; the new answer is right, and going back finds the old segment.

Run as `dynrun tests/lang/guards.py [--filter NAMES]`. Each case is a generator function that yields (label, callable, arguments)
states: "old" before and after, "new" between. Every state is called four times compiled and compared with a call that dynrun
leaves alone; in the last "old" state nothing may be recorded anew. Cases marked `dropped` change something that a fold was made
from in place: there the old segment need not survive.
"""

import argparse
import os
import pathlib
import sys
import types

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "models"))

import harness  # noqa: E402

dynrun = harness.load_dynrun()
EXECUTABLE = ROOT / "build" / "release" / "dynrun"
if not harness.is_real(dynrun) and EXECUTABLE.exists() and "DYNRUN_TESTS_PLAIN" not in os.environ:
    os.execv(EXECUTABLE, [str(EXECUTABLE), os.path.abspath(__file__), *sys.argv[1:]])

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
