import torch
from support import seq, show


def model(x, mask=None):
    if mask is None:
        return x.sum()
    return (x * mask).sum()


for step in range(12):
    show(model(seq(3, start=step % 2), None if (step // 3) % 2 else seq(3)))
