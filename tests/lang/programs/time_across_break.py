import time
import torch
from support import seq, show


def f(x):
    return (x * 2).tanh()


def timed(x):
    began = time.perf_counter()
    y = f(x)
    spent = (time.perf_counter() - began) * 1e3
    return y, spent >= 0, spent < 60000, began > 0


for step in range(12):
    show(*timed(seq(3, start=step % 3)))
