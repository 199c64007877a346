import torch
from support import seq, show


def model(x):
    out = torch.zeros(len(x), 2)
    for i in range(len(x)):
        out[i, 0] = x[i]
        out[i][1] = x[-1 - i] * i
    buffer = [None] * len(x)
    for i, v in enumerate(x):
        buffer[i] = v.clone()
    return out, torch.stack(buffer)


for n in (3, 3, 3, 4, 3):
    show(*model(seq(n)))
