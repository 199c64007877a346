import torch
from support import seq, show


def model(x, log):
    y = x * 2
    y.retain_grad()
    y.register_hook(lambda grad: log.append(grad.sum().item()))
    z = y.sin()
    z.sum().backward()
    return y.grad


for step in range(5):
    log = []
    x = seq(2, start=step % 2).requires_grad_()
    show(model(x, log), x.grad, [round(v, 3) for v in log])
