import torch
from support import seq, show


def model(x, n):
    for i in range(n):
        x = x * 0.99 + 0.01 * i
    return x


for n in (300, 300, 300, 301, 299, 1000):
    show(n, model(seq(2), n))
