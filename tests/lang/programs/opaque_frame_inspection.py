import inspect
import sys
import torch
from support import seq, show


def who():
    frame = sys._getframe(1)
    return frame.f_code.co_name, frame.f_lineno, sorted(frame.f_locals)


def model(x):
    y = x * 2
    name = who()
    z = y + 1
    stack = [f.function for f in inspect.stack()[:2]]
    return z, name, stack, sorted(locals())


for step in range(5):
    show(*model(seq(2, start=step % 2)))
