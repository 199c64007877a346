import torch
from support import seq, show, trace


def low(x, bad):
    if bad:
        {}["missing"]
    return x * 2


def high(x, kind):
    try:
        return low(x, kind > 0)
    except KeyError as error:
        if kind == 1:
            raise ValueError("wrapped") from error
        if kind == 2:
            raise ValueError("during")
        raise ValueError("hidden") from None


for step in range(8):
    try:
        show(high(seq(2), step % 4))
    except ValueError:
        print(trace())
