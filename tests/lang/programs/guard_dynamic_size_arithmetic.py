import torch
from support import seq, show


def model(x):
    n = x.size(0)
    half = n // 2
    pad = (4 - n % 4) % 4
    y = torch.cat([x, x.new_zeros(pad)]).view(-1, 4)
    return y * n, x[:half], torch.arange(n) + half


for n in (4, 5, 6, 7, 8, 9, 4, 12, 1):
    show(*model(seq(n)))
