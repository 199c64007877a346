import torch
from support import seq, show


def model(x):
    if x.shape[0] > 3:
        return x[:3] * 10
    elif x.shape[0] == x.shape[1]:
        return x.T
    return x + x.numel()


for a, b in ((2, 3), (2, 3), (3, 3), (3, 3), (4, 3), (5, 2), (2, 2), (2, 5), (7, 7)):
    show(model(seq(a, b)))
