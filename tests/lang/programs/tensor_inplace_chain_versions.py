import torch
from support import seq, show


def model(x):
    y = x.clone()
    z = y[:2]
    y.mul_(2)
    w = z + 1
    z.zero_()
    v = y.sum()
    y.copy_(x)
    return w, v, z, y, y._version, z._version


for step in range(5):
    show(*model(seq(4, start=step % 2)))
