"""Programs that are replayed ten thousand times and must leave nothing behind, and models that must die when they would under python.

Each program is one construct that a replay rebuilds values, changes objects or leaves the graph for.
"""

import contextlib
import dataclasses
import gc
import os
import sys
import weakref

import torch

WARM, TURNS, MODELS = 2000, 10000, 100


@dataclasses.dataclass
class Pair:
    first: torch.Tensor
    step: int


class State:
    def __init__(self):
        self.steps, self.last, self.history = 0, None, []


STATE = State()
SETTINGS = {"scale": 2.0}


def containers(x, step):
    return {"pair": Pair(x + 1, step), "list": [x * 2, (x, x.sum())], "text": f"{step}"}


def attributes(x, step):
    STATE.steps += 1
    STATE.last = x * SETTINGS["scale"]
    STATE.history.append(x.mean())
    if len(STATE.history) > 4:
        STATE.history.clear()
    return STATE.last + step


def factors(x):
    for factor in (1, 2, 3):
        yield x * factor


def generators(x, step):
    return sum(factors(x)) + [value for value in factors(x)][0]


def suspended(x, step):
    iterator = factors(x)
    return next(iterator), iterator


def exceptions(x, step):
    try:
        raise ValueError(x.shape)
    except ValueError as error:
        return x * error.args[0][0]


def operator_raises(x, step):
    try:
        return torch.mm(x.unsqueeze(0), x.unsqueeze(0))
    except RuntimeError as error:
        return str(error)


def closures(x, step):
    def inner(y):
        return y + x + step

    return inner(x), inner


def breaks(x, step):
    y = x + 1
    os.getpid()
    with contextlib.suppress(ValueError):
        y = y * 2
        if step % 2:
            int(y.sum())
        raise ValueError(step)
    return y - 1


def branches(x, step):
    return x * 2 if x.sum() > 0 else x / 2


def writes(x, step):
    y = x.clone()
    y[0] = step
    y.add_(1)
    x.mul_(1.0)
    return y, y[1:], x


def random_numbers(x, step):
    return torch.nn.functional.dropout(x, 0.5) + torch.rand_like(x)


def items(x, step):
    return x * x.sum().item()


PROGRAMS = (containers, attributes, generators, suspended, exceptions, operator_raises, closures, breaks, branches, writes,
            random_numbers, items)
UNRECORDED = (operator_raises, suspended)  # what they break at is all that they do


def resident_mib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def held():
    """(objects that the collector knows, blocks that Python holds, MiB in memory)"""
    gc.collect()
    return len(gc.get_objects()), sys.getallocatedblocks(), resident_mib()


def growth(run, warm, turns):
    """What `turns` calls of `run` left behind after `warm` earlier ones, as texts."""
    run(warm)
    held()  # the first look imports a codec
    before = held()
    run(turns)
    grown = [after - was for after, was in zip(held(), before)]
    problems = []
    if grown[0] > 50:
        problems.append(f"{grown[0]} more objects after {turns} calls")
    if grown[1] > turns // 20 + 200:
        problems.append(f"{grown[1]} more blocks after {turns} calls")
    if grown[2] > 8:
        problems.append(f"{grown[2]:.1f} MiB more memory after {turns} calls")
    return problems


def check_program(dynrun, function, real):
    """10,000 replays of a program leave neither objects nor memory behind."""
    torch.set_num_threads(1)
    compiled = dynrun.compile(function)
    kept = torch.randn(8)
    references = sys.getrefcount(kept)

    def run(times):
        for step in range(times):
            compiled(torch.randn(8), step % 7)
        compiled(kept, 0)

    problems = growth(run, WARM, TURNS)
    STATE.__init__()
    if sys.getrefcount(kept) != references:
        problems.append(f"{sys.getrefcount(kept) - references} more references to an argument")
    if real and function not in UNRECORDED and dynrun.stats()["segment_replays"] < TURNS // 2:
        problems.append(f"{dynrun.stats()['segment_replays']} replays")
    return problems


def model_lives(dynrun):
    """Makes a model and a closure, calls both until they are replayed, and tells what is alive once their names are gone."""
    model = dynrun.compile(torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.LayerNorm(256)).eval())
    scale = torch.randn(256)

    @dynrun.compile
    def scaled(x):
        return x * scale + 1

    with torch.no_grad():
        for _ in range(4):
            scaled(model(torch.randn(2, 256)))
    watched = {"model": weakref.ref(model), "weight": weakref.ref(model[0].weight), "captured tensor": weakref.ref(scale)}
    del model, scale, scaled
    return [name for name, reference in watched.items() if reference() is not None]


def check_models_die(dynrun):
    """A hundred models, each recorded and dropped: each dies at once, and so does all that was compiled for it."""
    torch.set_num_threads(1)
    alive = []

    def run(times):
        for _ in range(times):
            alive.extend(model_lives(dynrun))

    problems = growth(run, MODELS // 4, MODELS)
    return problems + [f"alive: {name}, {alive.count(name)} times" for name in dict.fromkeys(alive)]
