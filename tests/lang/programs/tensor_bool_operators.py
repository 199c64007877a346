import torch
from support import seq, show, trace


def model(x, y):
    a = x.sum() > 0 and y.sum() > 0
    b = x.any() or y
    c = not x.sum()
    return a, b is y, c, 1 if x.numel() and x[0] else 2


for step in range(6):
    show(*model(seq(2, start=step), seq(2, start=step + 1)))
for step in range(5):
    try:
        bool(seq(2) > 0)
    except RuntimeError:
        print(trace())
