"""Numbers that vary and reach C code by way of generators, iterators, callbacks, objects and exceptions."""

import functools
import itertools
import operator

import torch
from support import seq, show


class Box:
    def __init__(self, value):
        self.value = value

    def __len__(self):
        return int(abs(self.value))

    def __bool__(self):
        return self.value > 2

    def __lt__(self, other):
        return self.value * -1 < other.value

    def __add__(self, other):
        return self.value + other

    def __index__(self):
        return int(self.value)

    def __format__(self, spec):
        return f"<{self.value:{spec}}>"

    def __eq__(self, other):
        return self.value == other

    __hash__ = None


class Sized:
    def __init__(self, value):
        self.value = value

    def __len__(self):
        return int(abs(self.value)) % 2


def caught(s):
    try:
        raise ValueError(s, f"{s}")
    except ValueError as error:
        return str(error), error.args


def generated(s):
    yield s
    yield s * 2
    yield s + 1


FUNCTIONS = [
    lambda x, s: x * sum(s * k for k in range(3)),
    lambda x, s: x * max(generated(s)),
    lambda x, s: x * sum(iter([s, 1])),
    lambda x, s: (x, sorted([3, 1, 2], key=lambda v: v * s)),
    lambda x, s: (x, sorted([Box(s), Box(1), Box(2)])[0].value),
    lambda x, s: (x, list(filter(lambda v: v > s, [1, 2, 3]))),
    lambda x, s: (x, list(filter(lambda v: v * s, [1, 2, 3]))),
    lambda x, s: (x, list(map(lambda v: v * s, [1, 2, 3]))),
    lambda x, s: (x, list(itertools.accumulate(iter([s, 1, 2])))),
    lambda x, s: (x, [v + 1 for v in itertools.chain([s], generated(s))]),
    lambda x, s: (x, list(itertools.takewhile(lambda v: v < s, [1, 2, 3]))),
    lambda x, s: (x, functools.reduce(operator.add, [s, 1, 2])),
    lambda x, s: (x, functools.reduce(lambda a, b: a * s + b, [1, 2, 3])),
    lambda x, s: x + len(Box(s)),
    lambda x, s: x + 1 if Box(s) else x,
    lambda x, s: x + 1 if Sized(s) else x,
    lambda x, s: x + (not Sized(s)),
    lambda x, s: x + (Box(s) + 1),
    lambda x, s: x + [1, 2, 3, 4][Box(abs(s) % 3)],
    lambda x, s: (x, f"{Box(s):.1f}", any(v > s for v in (1, 2)), all(v > s for v in (1, 2))),
    lambda x, s: (x, Box(s) in [1, 2.5], 2 in [Box(s)], [Box(s)].index(s)),
    lambda x, s: (x, caught(s)),
    lambda x, s: functools.partial(torch.mul, x)(s),
    lambda x, s: functools.partial(operator.mul, s)(x),
    lambda x, s: (lambda *a, **k: a[0] + k.get("w", 1))(x, w=s),
    lambda x, s: (x, dict(zip("ab", generated(s))), {s: 1}, {1, s}, (s, 1) == (1, s)),
    lambda x, s: (x, min((s, 1), (2, 0)), [s, 2].count(2), (1, s).index(s)),
    lambda x, s: (x, next(iter([s])), list(enumerate(generated(s), 1)), list(reversed([s, 2]))),
    lambda x, s: (x, " ".join(str(v) for v in generated(s)), "{} {}".format(s, 1)),
    lambda x, s: (x, getattr(Box(s), "value"), isinstance(s, int), operator.attrgetter("value")(Box(s))),
    lambda x, s: (x, divmod(s, 2), pow(s, 2), int(s), float(s), complex(s), bool(s), hash(s) == hash(s + 0)),
]

for number, function in enumerate(FUNCTIONS):
    for s in [0.5, 1.5, 2.5, 3, 1, 2, 4, 1.5, 0, -2]:
        try:
            show(number, s, function(seq(2, start=1), s))
        except Exception as error:
            show(number, s, type(error).__name__, str(error))
