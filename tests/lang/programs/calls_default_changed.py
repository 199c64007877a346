import torch
from support import seq, show


def model(x, factor=2.0):
    return x * factor + 1


for factors in ((2.0,), (3.0,), (2.0,), (-1.0,), (2.0,)):
    model.__defaults__ = factors
    for step in range(3):
        show(factors[0], model(seq(3, start=step)))


def other(x, *, gain=1.5):
    return x * gain


for gain in (1.5, 2.5, 1.5):
    other.__kwdefaults__ = {"gain": gain}
    for step in range(3):
        show(gain, other(seq(3, start=step)))
