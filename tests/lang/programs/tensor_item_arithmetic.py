import torch
from support import seq, show


def model(x):
    scale = x.sum().item()
    y = x * scale + scale ** 2
    mean = y.mean().item() / 2
    return y - mean


for step in range(6):
    show(model(seq(3, start=step * 0.7)))
