import torch
from support import seq, show


def model(x, w):
    a = x * w
    b = a.detach() * w
    with torch.no_grad():
        c = a * 2
    d = a.data + c
    return (a + b + c + d).sum(), b.requires_grad, c.requires_grad


w = seq(3).requires_grad_()
for step in range(6):
    y, *flags = model(seq(3, start=step % 2), w)
    y.backward()
    show(y, w.grad, flags)
