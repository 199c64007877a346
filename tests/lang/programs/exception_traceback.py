import torch
from support import seq, show, trace


def inner(x, n):
    y = x * 2
    if n == 3:
        raise RuntimeError(f"at step {n}")
    return y


def outer(x, n):
    z = x + 1
    return inner(z, n) + z


for step in range(6):
    try:
        show(outer(seq(2, start=step), step))
    except RuntimeError:
        print(trace())
