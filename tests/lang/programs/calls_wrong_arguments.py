import torch
from support import seq, show, trace


def inner(a, b, *, c):
    return a + b + c


def model(x, step):
    if step == 3:
        return inner(x, x)
    if step == 4:
        return inner(x, x, x, c=1)
    if step == 5:
        return inner(x, x, c=1, d=2)
    return inner(x, x, c=1)


for step in range(8):
    try:
        show(model(seq(2), step))
    except TypeError:
        print(trace())
