"""functools.wraps, update_wrapper and partial in the function itself, of functions and objects whose names and attributes change."""

import functools
import warnings

import torch


def scale(x, factor=2.0, *, offset=0.0):
    """Scales."""
    return x * factor + offset


class Norm(torch.nn.Module):
    """Normalises."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight


def maybe(function):
    @functools.wraps(function)
    def inner(x, *args, **kwargs):
        return x if x is None else function(x, *args, **kwargs)

    return inner


norm, kept = Norm(), []


def wrapped(x):
    outer = maybe(scale)
    return maybe(norm)(outer(x)), outer.__name__, outer.__doc__, outer.__module__, outer.__wrapped__ is scale, sorted(outer.__dict__)


def escapes(x):
    outer = maybe(scale)
    outer.extra = [1]
    kept.append(outer)
    return outer(x), outer


def partials(x):
    of_function = functools.partial(scale, factor=3.0)
    of_module = functools.partial(norm)
    of_class = functools.partial(torch.Size, (2, 2))
    return of_function(x, offset=1.0) + of_module(x), of_class().numel(), of_function.keywords


def tells(x):
    tell = functools.partial(warnings.warn, category=FutureWarning)
    tell("old")
    functools.partial(print, "value", end="!\n")(3)
    return x + 1


def copies(x, options):
    mine = dict(options)
    mine.update(scale.__annotations__)
    other = options.copy()
    other["x"] = x
    return {**mine, "n": len(other)}, x * mine["factor"]


def shifted(x):
    shifts = ((1, -1), (-1, 1), (0, (1, 2)[0]))
    return torch.stack(list(map(lambda by: torch.nn.functional.pad(x, by)[:4], ((1, -1), (-1, 1))))), [a + b for a, b in shifts]


with torch.no_grad():
    for turn in range(8):
        x = torch.ones(4) * turn
        if turn == 4:
            scale.__name__, scale.__doc__, scale.note = "other", "Other.", turn
        if turn == 6:
            scale.__module__, norm.note = "elsewhere", "new"
        print(wrapped(x))
        y, outer = escapes(x)
        print(y, outer.__name__, outer.__wrapped__ is scale, outer.extra, outer.__dict__.keys(), len(kept), outer is kept[-1])
        print(partials(x))
        print(copies(x, {"factor": turn, "deep": {"a": [turn]}}))
        print(shifted(x))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            print(tells(x), [(w.category.__name__, str(w.message)) for w in seen])
print(kept[0].extra is kept[1].extra, [f(torch.ones(1)).item() for f in kept])


class Sub(dict):
    pass


def copied(x, outside):
    mine = {}
    mine.update(Sub(m=1))
    mine.update(outside)
    return x + 1, mine, dict(outside)


outside = Sub(n=2)
for turn in range(18):
    if turn == 6:
        Sub.__iter__ = lambda self: iter(["a"])
    if turn == 12:
        Sub.keys = lambda self: ["b"]
    try:
        print(copied(torch.ones(1), outside))
    except KeyError as error:
        print("KeyError", error)
