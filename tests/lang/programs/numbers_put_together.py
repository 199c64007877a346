"""Sizes and counters put together by C code, put into tensors and named tuples; code that has other builtins."""

import collections
import functools
import math
import operator
import typing

import numpy as np
import torch

Pair = collections.namedtuple("Pair", "a b", defaults=[3])


class Entry(typing.NamedTuple):
    number: int
    tensor: torch.Tensor = None

    def doubled(self):
        return self.number * 2


class Next(Pair):
    def __new__(cls, a, b=2):
        if a < 0:
            raise ValueError(f"{a} is negative")
        return super().__new__(cls, a + 1, b)


class Other(Pair):
    """Its __new__ gives something else."""

    def __new__(cls, *values):
        return list(values)


def together(x, step):
    total = sum(x.shape) + math.prod(x.shape) + x.shape.numel() + functools.reduce(operator.add, x.shape, step)
    ends = max(x.shape) - min(list(x.shape)), sum([step, x.size(0)], 2), sum([]), math.prod(())
    return x * total, ends, max([step]), functools.reduce(operator.mul, [step, x.size(1)])


def in_tensors(x, step):
    size = torch.tensor(x.size(0))
    several = torch.tensor([step, x.size(1), 4])
    size += 1
    several[0] = 9
    return (size, several, torch.tensor(step, dtype=torch.float64), torch.as_tensor(x.size(1)), x.new_tensor(step), torch.tensor(step * 0.5),
            torch.tensor((x.size(0), step), dtype=torch.int32), torch.tensor([[step]]), torch.tensor([1.5, step]), torch.tensor(data=step),
            torch.tensor(step, requires_grad=False).item() + 1, torch.tensor(step > 2), x[:torch.tensor(step) % 3])


def named(x, step):
    pair, entry, follower = Pair(x.shape[0], x), Entry(step, tensor=x * 2), Next(step, x.size(1))
    try:
        Next(-step - 1)
    except ValueError as error:
        refused = str(error)
    try:
        Pair()
    except TypeError as error:
        missing = str(error)
    return (pair.b * pair.a + entry.tensor + entry.doubled(), pair._replace(a=5).a, tuple(follower), type(follower).__name__, follower == Next(step, x.size(1)), refused, missing,
            Pair._make([1, 2]), hash(Pair(1, 2)), {Pair(step, 1): 1}, Pair(1), Other(step, 2), Pair(*x.shape) < (3, 3))


def by_iteration(x, step):
    first, *rest = x[:3]
    return sum(row * i for i, row in enumerate(x[:3])), first, len(rest), [a + b for a, b in zip(x, x[1:])][0], list(map(float, x[0, :2])), sum(x[:2]), dict(enumerate(x[:2]))[1]


def with_numpy(x, step):
    flat = x.reshape(int(np.prod(x.shape)))
    return flat, np.prod(x.shape[1:]), np.sum([step, 2]), np.max(x.shape), np.min((step, 3)), type(np.prod(())).__name__, np.prod([2.5, 2])


EXECUTED = "def apart(x, n):\n    y = x * n\n    return y.reshape(n, -1) if n == 2 else y\n"
space = {"__builtins__": {}}
exec(EXECUTED, space)


def with_other_builtins(x, step):
    return space["apart"](x, step % 3)


class Kept(Pair):
    """Its __new__ makes one of a class that has an __init__, which then runs."""

    def __new__(cls, *values):
        return Pair.__new__(Noting, *values)


class Noting(Kept):
    made = []

    def __init__(self, *values):
        self.made.append(values)


def refused(x, step):
    x, pair, said = x + x.shape[0], Kept(step, 2), []
    for call in (lambda: x.shape.numel(3), lambda: torch.Size.numel((x.shape[0], 3)), lambda: torch.Size.numel(x.shape, x.shape), lambda: max(x.shape, 3)):
        try:
            said.append(call())
        except TypeError as error:
            said.append(str(error))
    return said, len(Noting.made), type(pair).__name__, torch.tensor([1e300, 2e300, 3e39, 4.5, 1e300, -1e300][step]), torch.tensor([10.0**(36 + step), 1.5])


def show(value):
    if isinstance(value, torch.Tensor):
        return f"{value.dtype} {tuple(value.shape)} {value.sum().item():.3f}"
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__}({', '.join(map(show, value))})"
    return f"{type(value).__name__} {value}"


for function in (refused, named, together, in_tensors, by_iteration, with_numpy, with_other_builtins):
    for step in range(6):
        rows = 4 if step < 2 else 4 + 2 * step
        x = torch.arange(rows * 6, dtype=torch.float32).reshape(rows, 6) / 10
        print(function.__name__, show(function(x, step)))

try:
    torch.tensor(300 + step, dtype=torch.uint8)
except RuntimeError as error:
    print(str(error).splitlines()[0])


def narrow(step):
    return torch.tensor(step * 10**9, dtype=torch.int32) + torch.tensor([step * 10.0**30])


for step in range(4):
    try:
        print(show(narrow(step)))
    except RuntimeError as error:
        print(str(error).splitlines()[0])
