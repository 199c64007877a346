import torch
from support import seq, show


def make(scale):
    offset = seq(3)

    def inner(x):
        return x * scale + offset

    return inner


models = [make(2.0), make(3.0), make(-1.0)]
for step in range(9):
    show(models[step % 3](seq(3, start=step % 2)))
