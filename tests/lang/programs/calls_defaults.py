import torch
from support import seq, show


def model(x, power=2, shift=torch.ones(3), *, scale=3.0):
    return (x ** power + shift) * scale


for step in range(8):
    x = seq(3, start=step % 2)
    if step % 4 == 3:
        show(model(x, 3))
    elif step % 4 == 2:
        show(model(x, scale=1.5))
    else:
        show(model(x))
