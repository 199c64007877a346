import torch
from support import seq, show


def model(x):
    y = x * x + 2
    return y.sum(), y


for step in range(12):
    x = seq(3, start=step % 2).requires_grad_((step // 3) % 2 == 1)
    total, y = model(x)
    if total.requires_grad:
        total.backward()
        show(x.grad, total.grad_fn.name(), y.grad_fn.name())
    show(total, y, y.is_leaf)
