import torch
from support import seq, show


def model(x, y):
    x += y
    x.mul_(2).sub_(0.5)
    x[0] = 9.0
    x[1:] += 1
    return x.relu_()


for step in range(6):
    x = seq(4, start=step % 2)
    out = model(x, seq(4, start=3))
    show(out, x, out is x, x._version)
