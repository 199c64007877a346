import torch
from support import seq, show


def model(items, x):
    a = items[1:3]
    b = items[::-1]
    items[1:2] = [x, x + 1]
    return a, b, items[-1], x[1:], x[::2], x[..., None], x[[0, 2]]


for step in range(5):
    items = [1, 2.5, seq(2), "s"]
    show(*model(items, seq(4, start=step % 2)), len(items))
