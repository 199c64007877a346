"""A function that begins under a tracer and goes on without one: nobody sees what C code calls in its loops, so nothing may be recorded."""
import sys

import torch
from support import show


class Counted(type):
    def __len__(cls):
        return cls.count

    def __getattr__(cls, name):
        return cls.count + 1


class Made(metaclass=Counted):
    count = 0

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return torch.equal(self.value, other.value)


def turn(x):
    Made.count += 2
    one, other = Made(x), Made(x + 1)
    return Made.more, len(Made), one == other, x * len(Made)


def begun(x):
    sys.settrace(None)
    for _ in range(40):
        show(*turn(x))
    for i in range(30):
        Made.count = i
        show(x + i, len(Made), sorted([3, 1, 2], key=lambda item: (item + Made.count) % 3))


sys.settrace(lambda frame, event, argument: None)
begun(torch.arange(3.0))
for _ in range(12):
    show(*turn(torch.arange(2.0)))
