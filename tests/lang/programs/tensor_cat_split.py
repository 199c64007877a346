import torch
from support import seq, show


def model(x):
    a, b = x.chunk(2, dim=1)
    c, d, e = torch.split(x, [1, 2, 1], dim=1)
    y = torch.cat((a * 2, d, b), 1)
    z = torch.stack([a, b])
    h = torch.hstack([c, e])
    return y, z, h, torch.tile(c, (2, 1)), torch.roll(x, 1, 0), torch.flip(x, [1])


for step in range(5):
    show(*model(seq(2, 4, start=step % 2)))
