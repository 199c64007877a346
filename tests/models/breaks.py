"""Small functions with and without graph breaks, for `tools/bench breaks`: 8x8 tensors, about 36 operators each.

CASES maps a name to a function that makes (callable, arguments). Output of prints goes to wherever stdout points.
"""

import torch
from torch import nn

CASES = {}


def case(name):
    def register(make):
        CASES[name] = make
        return make
    return register


def work(x, times=9):
    """Four operators a turn."""
    for _ in range(times):
        x = torch.relu(x * 1.01 + 0.1).tanh()
    return x


def square():
    """The same numbers on every device."""
    return torch.randn(8, 8, generator=torch.Generator().manual_seed(0), device="cpu").abs().to(torch.get_default_device())


@case("no break, 36 ops")
def no_break():
    return work, (square(),)


@case("print in the middle")
def print_in_the_middle():
    def function(x):
        x = work(x, 4)
        print("half way")
        return work(x, 5)
    return function, (square(),)


@case("if y.sum() > 0")
def branch_on_a_sum():
    def function(x):
        x = work(x, 4)
        if x.sum() > 0:
            return work(x, 5)
        return work(-x, 5)
    return function, (square(),)


@case(".item() in arithmetic")
def item_in_arithmetic():
    def function(x):
        x = work(x, 4)
        return work(x * x.sum().item(), 5)
    return function, (square(),)


@case("print inside a for loop")
def print_in_a_loop():
    def function(x):
        for index in range(9):
            x = work(x, 1)
            print("turn", index)
        return x
    return function, (square(),)


@case("while x.sum() < n")
def while_on_a_sum():
    def function(x):
        while x.sum() < 2000.0:
            x = x * 1.5 + 0.5
            x = torch.relu(x)
        return x
    return function, (square(),)


@case("print and raise inside try")
def raise_inside_try():
    def function(x):
        try:
            x = work(x, 4)
            print("about to raise")
            raise ValueError("planned")
        except ValueError:
            return work(x, 5)
    return function, (square(),)


@case("generator that prints")
def printing_generator():
    def stages(x):
        for index in range(3):
            x = work(x, 3)
            print("stage", index)
            yield x

    def function(x):
        for x in stages(x):
            pass
        return x
    return function, (square(),)


class Counted(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.layer = nn.Linear(8, 8)
        self.inner = inner
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        x = work(self.layer(x), 2)
        print("calls", self.calls)
        x = self.inner(x) if self.inner is not None else x
        return work(x, 2)


@case("four nested counting modules")
def nested_modules():
    return Counted(Counted(Counted(Counted()))).eval(), (square(),)


@case("numpy in the middle")
def numpy_in_the_middle():
    def function(x):
        x = work(x, 4)
        x = torch.from_numpy(x.numpy() * 2)
        return work(x, 5)

    def through_the_host(x):
        x = work(x, 4)
        x = torch.from_numpy(x.cpu().numpy() * 2).to(x.device)
        return work(x, 5)
    x = square()
    return through_the_host if x.is_cuda else function, (x,)


@case("with and finally around a print")
def with_and_finally():
    class Scope:
        def __enter__(self):
            print("enter")

        def __exit__(self, *info):
            print("exit")

    def function(x):
        with Scope():
            x = work(x, 4)
        try:
            x = work(x, 5)
        finally:
            print("done")
        return x
    return function, (square(),)


@case("sorted by a tensor's value")
def sorted_by_value():
    def function(x):
        x = work(x, 4)
        rows = sorted(x.unbind(0), key=lambda row: row.sum().item())
        return work(torch.stack(rows), 5)
    return function, (square(),)


@case("json in the middle")
def json_in_the_middle():
    import json

    def function(x):
        x = work(x, 4)
        scale = json.loads("[1.5]")[0]
        return work(x * scale, 5)
    return function, (square(),)


@case("list appended, dict updated")
def containers_mutated():
    log, table = [], {}

    def function(x):
        log.clear()
        for index in range(9):
            x = work(x, 1)
            log.append(index)
            table[index] = x
        return x
    return function, (square(),)


@case("callback from map")
def callback_from_map():
    def function(x):
        return sum(map(lambda row: work(row, 1), [x] * 9))
    return function, (square(),)


@case("deep call with a print at the bottom")
def deep_call():
    def down(x, depth):
        if depth == 0:
            print("bottom")
            return x
        return work(down(work(x, 1), depth - 1), 1)
    return (lambda x: down(x, 4)), (square(),)


@case("string formatted and split")
def strings():
    def function(x):
        for name in "tanh relu sigmoid".split():
            x = getattr(torch, name)(work(x, 3))
            print(f"{name}: {tuple(x.shape)}")
        return x
    return function, (square(),)


@case("autograd, backward inside")
def backward_inside():
    weight = nn.Parameter(square())

    def function(x):
        weight.grad = None
        with torch.enable_grad():
            (work(x, 4) @ weight).sum().backward()
        return work(weight.grad, 5)
    return function, (square(),)


@case("boolean mask, data-dependent shape")
def data_dependent_shape():
    def function(x):
        x = work(x, 4)
        kept = x[x > 0.5]
        return work(kept, 5)
    return function, (square(),)


@case("exceptions as control flow")
def exceptions_as_control_flow():
    class Done(Exception):
        pass

    def step(x, index):
        if index == 8:
            raise Done
        return work(x, 1)

    def function(x):
        try:
            index = 0
            while True:
                x = step(x, index)
                index += 1
        except Done:
            return work(x, 1)
    return function, (square(),)


@case("logging in the middle")
def logging_in_the_middle():
    import logging

    logger = logging.getLogger("bench")
    logger.handlers, logger.propagate = [logging.StreamHandler(open("/dev/null", "w", encoding="ascii"))], False
    logger.setLevel(logging.INFO)

    def function(x):
        x = work(x, 4)
        logger.info("half way, %s", tuple(x.shape))
        return work(x, 5)
    return function, (square(),)


@case("if on a value in a nested call")
def branch_in_a_nested_call():
    def limited(x):
        x = work(x, 1)
        if x.max() > 0.9:
            x = x * 0.5
        return work(x, 1)

    def function(x):
        for _ in range(3):
            x = limited(work(x, 1))
        return x
    return function, (square(),)


@case("nested try, finally and return")
def nested_try():
    def inner(x):
        try:
            try:
                return work(x, 3)
            finally:
                print("inner")
        finally:
            x = work(x, 2)

    def function(x):
        try:
            x = inner(x)
            raise KeyError("planned")
        except KeyError as error:
            print(error.args)
            return work(x, 4)
        finally:
            print("outer")
    return function, (square(),)


@case("generator in a loop with a break")
def generator_in_a_loop():
    def halves(x):
        while True:
            x = work(x, 1)
            yield x

    def function(x):
        for index, x in enumerate(halves(x)):
            print("turn", index)
            if index == 7:
                break
        return work(x, 1)
    return function, (square(),)


@case("comprehension that prints")
def printing_comprehension():
    def shown(x):
        print("row")
        return work(x, 1)

    def function(x):
        return torch.stack([shown(row) for row in (x, x + 1, x + 2, x + 3)]).sum(0)
    return function, (square(),)


@case("recursion on a value")
def recursion_on_a_value():
    def shrink(x, depth=0):
        x = work(x, 1) * 0.5
        return x if depth > 6 or x.abs().max() < 1e-3 else shrink(x, depth + 1)
    return shrink, (square(),)


@case(".tolist() and back")
def through_a_list():
    def function(x):
        x = work(x, 4)
        largest = max(x.sum(0).tolist())
        return work(x / largest, 5)
    return function, (square(),)


@case("deepcopy in the middle")
def deepcopy_in_the_middle():
    import copy

    def function(x):
        x = work(x, 4)
        y = copy.deepcopy({"x": x, "names": ["a", "b"]})
        return work(y["x"] + x, 5)
    return function, (square(),)


@case("functools.reduce with a print")
def reduce_with_a_print():
    import functools

    def step(x, index):
        print(index)
        return work(x, 1)

    def function(x):
        return functools.reduce(step, range(8), x)
    return function, (square(),)


@case("counter and cache on an object")
def counter_and_cache():
    class State:
        def __init__(self):
            self.step, self.last, self.seen = 0, None, {}

    state = State()

    def function(x):
        state.step += 1
        x = work(x, 4)
        state.last = x
        state.seen["x"] = x.shape
        if state.step % 2 == 0:
            print("even")
        return work(x, 5)
    return function, (square(),)


@case("clock and random numbers")
def clock_and_random():
    import random
    import time

    def function(x):
        began = time.perf_counter()
        x = work(x, 4)
        random.random()
        x = work(x, 5)
        print(time.perf_counter() - began)
        return x
    return function, (square(),)


@case("weights by parametrization")
def parametrized_weights():
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.utils.parametrizations.weight_norm(nn.Linear(8, 8)) if index % 4 == 1 else nn.Linear(8, 8) for index in range(8)]).eval()
    return model, (square(),)
