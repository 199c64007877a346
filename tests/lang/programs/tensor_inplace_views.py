import torch
from support import seq, show


def fresh(x):
    y = x * 2
    y.unsqueeze_(0)
    z = y + 1
    y.squeeze_(0).t_()
    return y, z, y.shape, y.mul_(3)


def outside(x):
    x.transpose_(0, 1)
    y = x * 2
    x.add_(1)
    return y, tuple(x.shape)


for step in range(4):
    show(*fresh(seq(2, 3, start=step)))
    x = seq(2, 3, start=step)
    view = x.view(-1)
    show(*outside(x), x, view)
    print(x._version)
