import torch
from support import seq, show


def total(*tensors, scale=1.0, **extra):
    result = 0
    for tensor in tensors:
        result = result + tensor * scale
    for name in sorted(extra):
        result = result - extra[name]
    return result


def model(x):
    parts = [x, x + 1, x * x]
    return total(*parts), total(x, *parts, scale=0.5, **{"b": x, "a": x * 2})


for step in range(6):
    show(*model(seq(3, start=step % 2)))
