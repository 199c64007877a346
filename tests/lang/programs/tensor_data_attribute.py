import torch
from support import seq, show


def model(x, y):
    alias = x.data
    alias.mul_(2)
    x.data = y
    return alias, x + 1, x is y, x.data_ptr() == y.data_ptr()


for step in range(6):
    x, y = seq(3, start=step % 2), seq(3, start=4)
    show(*model(x, y), x, x._version)
