import torch
from support import seq, show


def model(x):
    x.requires_grad_()
    (x * x).sum().backward()
    g = x.grad
    x.grad = None
    (x * 3).sum().backward()
    return g, x.grad, x.requires_grad


for step in range(5):
    show(*model(seq(3, start=step % 2)))
