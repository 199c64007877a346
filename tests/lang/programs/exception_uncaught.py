import torch
from support import seq, show


def inner(x, i):
    if i == 4:
        return x.view(5)
    return x.view(2, 2)


def model(x, i):
    return inner(x * 2, i) + 1


for i in range(6):
    show(model(seq(4), i))
