"""Every id of `dynrun --explain=ids` has a program that provokes it: its id, line, count and cure."""

import collections
import re
import subprocess
import sys
import time

import dynrun
import torch

TABLE = dict(re.findall(r"^  ([a-z-]+) +\S.*\n +cure: (.+)$", subprocess.run([sys.executable, "--explain=ids"], capture_output=True, text=True).stdout, re.MULTILINE))
PROGRAMS = {}


def provokes(name):
    """The break of that id is met in the line marked with `# here`, once a recording."""
    def note(make):
        PROGRAMS[name] = make
        return make
    return note


@provokes("opaque-call")
def _():
    def f(x):
        y = x + 1
        time.sleep(0)  # here
        return y * 2
    return f


@provokes("opaque-operation")
def _():
    counts = collections.Counter()

    def f(x):
        y = x + 1
        counts["a"] += 1  # here
        return y * 2
    return f


@provokes("data-dependent-bool")
def _():
    def f(x):
        y = x + 1
        if y.sum() > 0:  # here
            return y * 2
        return y
    return f


@provokes("data-dependent-operator")
def _():
    def f(x):
        y = x.to_sparse()  # here
        return y.to_dense() * 2
    return f


@provokes("unknown-object")
def _():
    past = collections.deque([1, 2])

    def f(x):
        y = x + 1
        return y * len(past)  # here
    return f


@provokes("unsupported-tensor")
def _():
    def f(x):
        y = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8)  # here
        return y.dequantize()
    return f


@provokes("write-then-raise")
def _():
    total, places = torch.zeros(4), torch.tensor([0, 3])

    def f(x):
        total.add_(x.sum())
        return x[places] * 2  # here
    return f


@provokes("read-after-write")
def _():
    seen = [1]

    def f(x):
        seen.append(2)
        return x * seen[0]  # here
    return f


@provokes("write-after-output")
def _():
    def f(x):
        y = x + 1
        print(y.shape, y)
        y.add_(1)  # here
        return y
    return f


@provokes("raise")
def _():
    def f(x):
        y = x + 1
        raise ValueError(y.shape)  # here
    return f


@provokes("loop")
def _():
    turns = iter(range(1000))

    def f(x):
        y = x + 1
        for turn in turns:  # here
            return y * 2
    return f


@provokes("generator")
def _():
    async def scaled(x):
        return x * 2

    def f(x):
        work = scaled(x + 1)  # here
        try:
            work.send(None)
        except StopIteration as done:
            return done.value
    return f


@provokes("changing-number")
def _():
    def f(x):
        y = x.sum().item()
        if y > 3:  # here
            return x + 1
        return x - 1
    return f


@provokes("size-cap")
def _():
    def f(x):
        for step in range(10000):  # here
            x = x * 0.5 + step
        return x
    return f


@provokes("graph-break")
def _():
    def f(x):
        y = x + 1
        dynrun.graph_break()  # here
        return y * 2
    return f


@provokes("disabled")
def _():
    @dynrun.disable
    def apart(x):
        return x + 1

    def f(x):
        return apart(x * 2) + 1  # here
    return f


@provokes("scope")
def _():
    block = dynrun.optimize(backend="eager")

    def f(x):
        with block:  # here
            return x * 2 + 1
    return f


def line_of(f):
    """The number of the line marked in the function that stands at `f`'s code."""
    with open(__file__) as source:
        lines = source.read().split("\n")
    first = f.__code__.co_firstlineno
    return next(number for number in range(first, first + 20) if lines[number - 1].endswith("# here"))


def check(name):
    f = PROGRAMS[name]()
    dynrun.compile(f)
    dynrun.reset_stats()
    for _ in range(2):
        try:
            f(torch.ones(4, 4))
        except ValueError:
            pass
    found = [entry for entry in dynrun.stats()["graph_breaks"] if entry["id"] == name]
    assert found, (name, dynrun.stats()["graph_breaks"])
    entry = found[0]
    assert (entry["file"], entry["line"]) == (__file__, line_of(f)), (entry, line_of(f))
    assert 1 <= entry["count"] <= 2 and entry["cure"] == TABLE[name], entry
    assert entry["callers"][0]["function"] == "check", entry


def test_every_id_has_a_program():
    assert len(TABLE) > 10 and set(TABLE) == {*PROGRAMS, "stress"}, set(TABLE) ^ {*PROGRAMS, "stress"}


for name in PROGRAMS:
    globals()["test_" + name.replace("-", "_")] = lambda name=name: check(name)


def test_stress():
    code = "import torch\ndef f(x): return (x + 1) * 2\nfor _ in range(4): f(torch.ones(2))\nimport dynrun; print([e for e in dynrun.stats()['graph_breaks'] if e['id'] == 'stress'][0]['line'])"
    ran = subprocess.run([sys.executable, "--stress=break", "-c", code], capture_output=True, text=True)
    assert ran.stdout.strip() == "2", ran
