"""Attributes of the program's own on tensors: from outside, made here, written again, read in other calls."""
import torch


def marks(x):
    x.mark = "static"
    return x * 2


def made(x):
    y = x + 1
    y.origin, y.count = "made", 3
    return y


def dropped(x):
    (x * 3).note = 1
    return x - 1


def read_back(x):
    x.scale = 2.0
    y = x * x.scale
    x.scale = 3.0
    return y + x.scale, hasattr(x, "scale"), getattr(x, "missing", "none")


def views(x):
    y = x[0]
    y.mark = "row"
    z = x[0]
    return y, z, hasattr(z, "mark")


def in_turn(x, value):
    if not hasattr(x, "uses"):
        x.uses = 0
    x.uses += 1
    x.last = value
    return x * x.uses


def in_place(x):
    y = x.add_(1)
    y.same = y is x
    return y


def breaks(x):
    y = x * 2
    y.first = 1
    if y.sum() > 2:
        y.second = 2
    return y


kept = torch.ones(2)
parameter = torch.nn.Parameter(torch.ones(2))
for step in range(8):
    x = torch.full((2,), float(step % 3))
    print(step, marks(x), x.mark, made(x).__dict__, dropped(x), read_back(x), x.scale)
    one = torch.ones(2, 2)
    y, z, has = views(one)
    print(step, y.__dict__, z.__dict__, has, in_turn(kept, step), kept.__dict__, in_place(x), x.__dict__)
    print(step, breaks(x).__dict__, marks(parameter), parameter.__dict__.get("mark"))
