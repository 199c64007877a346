import torch
from support import seq, show

w = seq(2).requires_grad_()


def model(x, flag):
    previous = torch.is_grad_enabled()
    torch.set_grad_enabled(flag)
    y = x * w
    torch.set_grad_enabled(previous)
    return y, (y * w).requires_grad


def leak(x):
    torch.set_grad_enabled(False)
    return x * w


for step in range(8):
    show(*model(seq(2), step % 4 < 2))
for step in range(5):
    show(leak(seq(2)), torch.is_grad_enabled())
    torch.set_grad_enabled(True)
