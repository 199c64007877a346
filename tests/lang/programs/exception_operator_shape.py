import torch
from support import seq, show, trace


def helper(x, w):
    return x @ w


def model(x, w):
    y = x * 2
    z = helper(y, w)
    return z + y.sum()


for rows in (3, 3, 3, 4, 3, 5, 3):
    try:
        show(model(seq(2, rows), seq(3, 2)))
    except RuntimeError:
        print(trace())
