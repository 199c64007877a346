import torch
from support import seq, show


def model(x, n):
    parts = [x * i + j for i in range(n) for j in range(2) if (i + j) % 2 == 0]
    return torch.stack(parts).sum(0), len(parts)


for n in (3, 3, 3, 4, 3, 4, 2):
    show(*model(seq(2, start=n), n))
