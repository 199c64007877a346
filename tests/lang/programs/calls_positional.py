import torch
from support import seq, show


def scale(x, y):
    return x * y + 1


def model(x):
    return scale(x, x + 2) - scale(2 * x, x)


for step in range(6):
    show(step, model(seq(2, 3, start=step % 3)))
