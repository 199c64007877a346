import torch
from support import seq, show


def model(x):
    n = int(x.abs().sum().item()) + 1
    y = x * n
    if x.max().item() > 0.95:
        y = y + 100
    return y, n, float(x[0]) > 0, x.argmax().item()


for step in range(8):
    show(*model(seq(3, start=step * 0.7)))
