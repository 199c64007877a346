import torch
from support import seq, show


def model(x, y):
    x.add_(1)
    z = y * 2
    y.mul_(3)
    return x + z, x is y


for step in range(12):
    a, b = seq(4, start=step % 2), seq(4, start=5)
    if step % 4 == 3:
        b = a
    elif step % 4 == 2 and step > 4:
        b = a[:]
    elif step == 9:
        a, b = a[:3], a[1:]
    show(*model(a, b), a, b)
