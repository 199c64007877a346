import torch
from support import seq, show, trace


def model(x, drop):
    scale = 2.0

    def use():
        return x * scale

    y = use()
    if drop:
        del scale
    return use() + y


for step in range(7):
    try:
        show(model(seq(2, start=step), step in (3, 5)))
    except NameError:
        print(trace())
