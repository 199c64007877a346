import torch
from support import seq, show


def model(a, b, items):
    a, b = b, a
    c = d = a * 2
    items[0], items[1] = items[1], items[0]
    i = 0
    i, items[i] = 1, d
    x = y = z = []
    x.append(c)
    (p, [q, *r]), s = (a, [b, c, d]), i
    return a, b, c is d, items, y is z, y, p is a, q, len(r), s


for step in range(5):
    show(*model(seq(2, start=step % 2), seq(2, start=5), [1, 2]))
