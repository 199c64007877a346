#!/usr/bin/env python3
"""Functions with breaks that are called again and again: after the first calls nothing is recorded any more, and calls do not
take more replays from one to the next. Run as `dynrun tests/lang/settled.py [--filter=NAME]`.

The functions of the break table (tests/models/breaks.py), and some of their own.
"""

import argparse
import collections
import contextlib
import copy
import io
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests" / "models"))

import harness  # noqa: E402

dynrun = harness.under_dynrun(__file__)

import breaks  # noqa: E402
import torch  # noqa: E402

CALLS, SETTLED_AFTER = 40, 24
CASES = dict(breaks.CASES)


def case(make):
    CASES[make.__name__] = make
    return make


@case
def texts_in_a_log():
    log, state = [], {"calls": 0}

    def function(x):
        y = breaks.work(x, 2)
        state["calls"] += 1
        log.append(json.dumps(state["calls"]))
        return y * 2
    return function, (torch.ones(2),)


@case
def counter_beside_layers():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()])
            self.steps = 0

        def forward(self, x):
            self.steps += 1
            for layer in self.layers[:-1]:
                x = layer(x)
            return self.layers[-1](x) * len(self.layers)

    return Model(), (torch.ones(2),)


@case
def custom_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    def function(x):
        for _ in range(3):
            x = Double.apply(x + 1)
        return x
    return function, (torch.ones(2, requires_grad=True),)


@case
def objects_without_dict():
    class Row(collections.OrderedDict):
        def __setattr__(self, name, value):
            super().__setitem__(name, value)
            super().__setattr__(name, value)

    def function(x):
        made = Row()
        y = x + 1
        json.dumps(len(made))
        made.first = y
        made.second = y * 2
        return made
    return function, (torch.ones(2),)


@case
def code_that_cannot_be_recorded():
    class Config:
        def __init__(self):
            self.sizes, self.inner = [1, 2], {"a": [1], "b": None}

        def __getattribute__(self, key):
            return super().__getattribute__(key)

    config = Config()

    def function(x):
        y = breaks.work(x, 2)
        mine = copy.deepcopy(config)
        return breaks.work(y, 2) * sum(mine.sizes)
    return function, (torch.ones(2),)


@case
def block_that_is_disabled():
    def function(x):
        y = breaks.work(x, 2)
        with dynrun.disable():
            y = y + 1
        return breaks.work(y, 2)
    return function, (torch.ones(2),)


@case
def turns_with_a_disabled_block():
    def function(rows):
        for row in rows:
            y = breaks.work(row, 2)
            with dynrun.disable():
                torch.relu(y)
    return function, (list(torch.ones(6, 2)),)


def check(name):
    torch.set_num_threads(1)
    function, arguments = CASES[name]()
    compiled = dynrun.compile(function)
    calls = []

    def note(_):
        stats = dynrun.stats()
        calls.append((stats["segments_compiled"], stats["segment_replays"]))

    torch.manual_seed(0)
    with contextlib.redirect_stdout(io.StringIO()):
        for turn in range(CALLS):
            # A call from C, so that the loop is no part of what is recorded.
            collections.deque(map(compiled, *([argument] for argument in arguments)), maxlen=0)
            with dynrun.disable():
                note(turn)
    problems = []
    if calls[-1][0] != calls[SETTLED_AFTER][0]:
        problems.append(f"{calls[-1][0] - calls[SETTLED_AFTER][0]} segments recorded after {SETTLED_AFTER} calls")
    each = [after[1] - before[1] for before, after in zip(calls[SETTLED_AFTER:], calls[SETTLED_AFTER + 1:])]
    if max(each[len(each) // 2:]) > max(each[:len(each) // 2]) or max(each) == 0:
        problems.append(f"replays a call: {each}")
    return problems


def never_the_same():
    """Calls that no segment of before fits, for ever: they are tried more and more seldom, and what the report keeps is bounded."""
    layer, x = torch.nn.Linear(4, 4), torch.ones(2, 4)

    def with_text(text):
        return x * len(text)

    def with_hook(_):
        handle = layer.register_forward_hook(lambda module, args, output: output * 2)
        y = layer(x)
        handle.remove()
        return y

    problems = []
    for function in (with_text, with_hook):
        dynrun.reset()
        dynrun.reset_stats()
        collections.deque(map(function, (f"text {i}" for i in range(3000))), maxlen=0)
        misses = dynrun.stats()["guard_misses"]
        if sum(miss["count"] for miss in misses) > 500:
            problems.append(f"{function.__name__}: {sum(miss['count'] for miss in misses)} misses in 3000 calls")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only cases whose name contains one of these (comma separated)")
    wanted = [part for part in parser.parse_args().filter.split(",") if part]
    passed = failed = 0
    checks = {**{name: (check, name) for name in CASES}, "never_the_same": (never_the_same,)}
    for name, (function, *arguments) in checks.items():
        if wanted and not any(part in name for part in wanted):
            continue
        answer = harness.in_child(function, *arguments)
        problems = [answer["error"]] if "error" in answer else answer["value"]
        passed, failed = passed + (not problems), failed + bool(problems)
        for problem in problems:
            print(f"FAIL {name}: {problem}", flush=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
