import torch
from torch.func import grad, jacrev, vmap
from support import seq, show


def f(x):
    return (x ** 3).sum()


def model(x):
    return grad(f)(x), vmap(lambda row: row.sin().sum())(x), jacrev(lambda v: v * v)(x[0]), vmap(grad(f))(x)


for step in range(5):
    show(*model(seq(2, 3, start=step % 2)))
