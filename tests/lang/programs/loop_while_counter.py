import torch
from support import seq, show


def model(x, limit):
    i = 0
    while i < limit:
        x = x * 0.5 + i
        i += 1
        if i == 6:
            break
    else:
        x = -x
    return x, i


for limit in (3, 3, 3, 8, 3, 0, 8):
    show(*model(seq(2), limit))
