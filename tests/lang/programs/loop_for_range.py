import torch
from support import seq, show


def model(x, n):
    for i in range(n):
        if i == 2:
            continue
        if i == 5:
            break
        x = torch.sin(x) + i
    else:
        x = x * 100
    return x, i


for n in (4, 4, 4, 7, 4, 7, 1, 4):
    show(*model(seq(3), n))
