import torch
from support import seq, show, trace


def model(x, index):
    y = x + 1
    return y[index] * 2


for index in (0, 1, 2, 5, 1, -1, -4, 0):
    try:
        show(model(seq(3), index))
    except IndexError:
        print(trace())
