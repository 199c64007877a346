"""Keys and attribute names that differ only behind their first eighty letters, behind a zero, or in what is no valid text."""
import torch
from support import show

nan, other = float("nan"), float("nan")
PAIRS = [("a\0b", "a\0c"), (10**90 + 1, 10**90 + 2), (b"x" * 90 + b"1", b"x" * 90 + b"2"), ("\ud800", "\ud801"), ("y" * 100 + "1", "y" * 100 + "2"),
         ((1.5, "q" * 90 + "1"), (1.5, "q" * 90 + "2")), (0, 0.5), (-1, "-1"), (b"1", "1"), (nan, other), (10**5000, 10**5000 + 1)]
values = {}


class Holder:
    pass


holder = Holder()


def by_item(first, second):
    def function(x):
        return x + values[first] * 100 + values[second]

    return function


def by_constant(x):
    return x + values["a\0b"] * 100 + values["a\0c"], x + values["\ud800"] * 100 + values["\ud801"]


def by_attribute(first, second):
    def function(x):
        return x + getattr(holder, first) * 100 + getattr(holder, second)

    return function


for number, (first, second) in enumerate(PAIRS):
    values[first], values[second] = number, number + 1
    function = by_item(first, second)
    for turn in range(6):
        show(function(torch.ones(2)))
        values[second] += turn > 2
for turn in range(6):
    show(*by_constant(torch.ones(2)))
    values["a\0c"] += turn > 2
for first, second in (("p\0q", "p\0r"), ("\ud800", "\ud801"), ("shape\0", "training\0"), ("z" * 100 + "1", "z" * 100 + "2")):
    setattr(holder, first, 3)
    setattr(holder, second, 4)
    function = by_attribute(first, second)
    for turn in range(6):
        show(function(torch.ones(2)))
        setattr(holder, second, 4 + (turn > 2))
try:
    torch.ones(2).__getattribute__("no\ud800")
except AttributeError as error:
    print(type(error).__name__, ascii(str(error)))
