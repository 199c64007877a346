import torch
from support import seq, show


@torch.jit.script
def scripted(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def model(x):
    return scripted(x + 0.1) + x


for step in range(8):
    show(model(seq(3, start=step * 0.9)))
