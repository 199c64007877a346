import torch
from support import seq, show


def helper(x):
    return x + 1


def model(x):
    return helper(x) * 2


first = helper
for f in (first, torch.sin, first, lambda x: x - 1, first):
    helper = f
    for step in range(3):
        show(model(seq(2, start=step)))


def replacement(x):
    return x * 100


helper = first
first.__code__ = replacement.__code__
for step in range(3):
    show(model(seq(2, start=step)))
