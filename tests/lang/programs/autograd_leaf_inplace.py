import torch
from support import seq, show


def update(w, x):
    loss = (w * x).sum()
    loss.backward()
    with torch.no_grad():
        w -= 0.1 * w.grad
        w.grad.zero_()
    return loss


w = seq(3).requires_grad_()
for step in range(6):
    show(update(w, seq(3, start=step)), w, w.grad, w.is_leaf, w._version)
try:
    w.add_(1)
except RuntimeError as error:
    print(error)
