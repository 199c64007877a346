import torch
from support import seq, show


def model(x, n):
    first = x.softmax(-1)
    alias = x.view_as(x)[...]
    alias.mul_(1.25)
    for index in range(n % 4):
        print("turn", index, tuple(x.shape))
    return x, first


with torch.no_grad():
    for step in range(9):
        show(*model(seq(2, 3, start=step % 2), step % 5))
