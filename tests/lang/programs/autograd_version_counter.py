import torch
from support import seq, show


def model(x, fail):
    y = x.exp()
    z = y * 2
    if fail:
        y.add_(1)
    return (z * y).sum() if not fail else z.sum() + (y * y).sum()


for step in range(6):
    x = seq(2).requires_grad_()
    try:
        model(x, step % 3 == 2).backward()
        show(x.grad)
    except RuntimeError as error:
        print("modified by an inplace operation" in str(error))
