import functools
import torch
from support import seq, show


def affine(scale, x, bias=0.0):
    return x * scale + bias


twice = functools.partial(affine, 2.0, bias=0.5)
again = functools.partial(twice, bias=1.5)

for step in range(6):
    x = seq(4, start=step % 2)
    show(twice(x), again(x), functools.reduce(torch.add, [x, x * 2, x * 3]))
