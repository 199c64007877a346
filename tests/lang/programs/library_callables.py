"""Callables and classes of the standard library in recorded code, and what changes between two calls."""

import collections
import contextlib
import enum
import functools
import operator
import sys

import torch

first = operator.itemgetter(0)
pair = operator.itemgetter(1, 0)
side = operator.attrgetter("side")
total = operator.methodcaller("sum", 0)


class Square:
    def __init__(self, n):
        self.side = n


square = Square(2)


def getters(x):
    rows = [x, x + 1]
    return first(rows), pair(rows), side(square) * x, total(x), operator.itemgetter("k")({"k": x}), operator.methodcaller("add", 1)(x), sorted([(2, "a"), (1, "b")], key=first)


def in_place(x):
    z = x.clone()
    z = operator.iadd(z, 1)
    numbers = [1]
    numbers = operator.iadd(numbers, [2])
    operator.setitem(numbers, 0, 5)
    return z, numbers, operator.iadd(1, 2), operator.countOf([1, 2, 1], 1), operator.concat([1], [2])


class Color(enum.Flag):
    RED = 1
    GREEN = 2
    BLUE = 4
    WHITE = 7


class Mode(enum.IntFlag):
    READ = 1
    WRITE = 2


wanted = Color.RED


def flags(x):
    f = wanted | Color.GREEN
    g = f & ~Color.GREEN
    f ^= Color.BLUE
    out = x
    if f & Color.RED:
        out = out + 1
    if not (g & Color.GREEN):
        out = out * 2
    if Color.RED in f:
        out = out + 10
    return out, f, g, Mode.READ | Mode.WRITE, Mode.READ in (Mode.READ | Mode.WRITE), bool(Color(0))


@functools.singledispatch
def kind(value):
    return 0


@kind.register
def _(value: int):
    return 1


@kind.register(torch.Tensor)
def _(value):
    return value * 2


def dispatch(x):
    return kind(x), kind(1), kind("a"), kind(square)


class Meta(type):
    made = 0

    def __call__(cls, *args):
        instance = super().__call__(*args)
        instance.tag = cls.label
        return instance

    @property
    def label(cls):
        return cls.__name__ + "!"


class Part(metaclass=Meta):
    def __init__(self, value):
        self.value = value


def metaclass(x):
    p = Part(x)
    return p.value + 1, p.tag, Part.label, type.__call__(Part, 3).value


class Bag(dict):
    def __getattr__(self, name):
        return self[name]


class Items(list):
    def last(self):
        return self[-1]


def subclasses(x):
    b = Bag(a=x, n=2)
    b["c"] = x + 1
    items = Items([x, 1])
    items.append(x * 2)
    items[1] = 7
    return b.a * b["n"], b, items.last(), items, len(items), list(b)


def handled(x):
    before = sys.exc_info()
    try:
        {}["k"]
    except KeyError:
        kind, error, trace = sys.exc_info()
        inside = kind.__name__, str(error), sys.exception() is error
    return x + 1, before, inside, sys.exc_info()


def in_handler(x):
    try:
        raise ValueError("outer")
    except ValueError:
        y, before, inside, after = handled(x)
        return y, before[0].__name__, inside, after[0] is before[0]


def stack(x):
    with contextlib.ExitStack() as exits:
        exits.callback(log.append, "left")
        exits.enter_context(contextlib.suppress(KeyError))
        y = x + 1
        {}["missing"]
    return y * 2


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Labelled(Point):
    @property
    def label(self):
        return f"{self.x}:{self.y}"


def matched(value, t):
    match value:
        case Labelled(label=text, x=x):
            return t + x, text
        case Point(0, y):
            return t * y
        case Point(x, y):
            return t + x + y
        case int(n) | float(n):
            return t - n
        case str():
            return t, value
        case dict():
            return t, len(value)
        case [Point(x=1), *rest]:
            return t * 3, len(rest)
    return None


def wrapped(x):
    def twice(function):
        @functools.wraps(function)
        def run(t):
            "doubles"
            return function(t) * 2
        run.count = 3
        return run

    @twice
    def inner(t):
        "adds one"
        return t + 1
    return inner(x), inner, inner.__name__, inner.__doc__, inner.count, inner.__wrapped__(x)


def views(x):
    d, e = {"a": x, "b": 1}, {"b": 2}
    return x * len(d.keys() & e.keys()), ("a" in d.keys()), (("b", 1) in d.items()), (("z", 1) in d.items()), sorted(d.keys() - e.keys()), vars(square)["side"], globals()["square"] is square


def counted(x):
    c = collections.Counter("abca")
    c.update("b")
    q = collections.deque([x], maxlen=2)
    q.append(x + 1)
    q.append(x + 2)
    n = 0
    while q:
        n += 1
        last = q.popleft()
    return c.most_common(1), c, last, n


class Shown:
    def __str__(self):
        return "shown"

    def __index__(self):
        return 1


def texts(x):
    s = Shown()
    return x + 1, "%s" % s, [1, 2, 3][s], (4, 5)[s]


def small(n, x):
    k = n + 1
    log.append(k)
    box["k"] = k - 1
    return x + k, k, [k, n]


log, box = [], {}
for step in range(6):
    x = torch.arange(4.0).reshape(2, 2) + step
    print(getters(x), in_place(x), flags(x), dispatch(x))
    print(metaclass(x), subclasses(x), handled(x), in_handler(x), stack(x), log)
    print([matched(v, x) for v in (Point(0, 2), Point(1, 2), Labelled(3, 4), 5, 2.5, "text", {"a": 1}, [Point(1, 1), 2], None)])
    outcome = wrapped(x)
    print(outcome[0], outcome[1](x), outcome[1].__dict__.keys(), outcome[1].__qualname__, outcome[1].__module__, outcome[2:])
    print(views(x), counted(x), texts(x))
    one = small(step, x)
    print(one, one[1] is step + 1, one[2][0] is one[1], one[2][1] is step, log[-1] is one[1], box["k"] is step)
    if step == 2:
        square.side = 5
        wanted = Color.BLUE
        first = operator.itemgetter(1)
        side = operator.attrgetter("__class__.__name__") if False else side
    if step == 3:
        kind.register(str, lambda value: "text")
        Point.__match_args__ = ("y", "x")
        Color.__and__ = lambda self, other: Color.WHITE
        Shown.__str__ = lambda self: "changed"
    if step == 4:
        Meta.label = property(lambda cls: "patched")
        Items.__getitem__ = lambda self, index: "mine"
