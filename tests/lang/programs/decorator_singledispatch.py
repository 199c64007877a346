import functools
import torch
from support import seq, show


@functools.singledispatch
def model(x):
    return ("other", x)


@model.register
def _(x: torch.Tensor):
    return x * 2


@model.register(list)
def _(x):
    return [model(item) for item in x]


for step in range(6):
    x = seq(2, start=step % 2)
    show(model(x), model([x, x + 1]), model(3))
