import torch
from support import seq, show


def model(x):
    y = (x ** 3).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    return first, second


for step in range(5):
    show(*model(seq(3, start=step % 2).requires_grad_()))
