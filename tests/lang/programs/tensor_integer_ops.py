import torch
from support import seq, show


def model(x):
    return x // 3, x % 3, -x // 2, x << 1, x >> 1, x & 3, x | 8, ~x, x / 2, x ** 2, x.float().mean(), x.sum(), x == 3, x.bitwise_xor(5), x.to(torch.uint8)


for step in range(5):
    show(*model(torch.arange(-4, 5) * (1 + step % 2)))
