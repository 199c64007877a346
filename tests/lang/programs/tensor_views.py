import torch
from support import seq, show


def model(x):
    a = x[1:]
    b = x.view(2, 2).t()
    a.add_(10)
    c = b.reshape(-1)
    b[0, 0] = -1
    d = x.unfold(0, 2, 1)
    return a, b, c, d, x.as_strided((2, 2), (1, 1)), b._base is x, a.storage_offset()


for step in range(6):
    x = seq(4, start=step % 2)
    show(*model(x), x)
