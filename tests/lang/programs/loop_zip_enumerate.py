import itertools
import torch
from support import seq, show


def model(xs, ws):
    out = []
    for i, (x, w) in enumerate(zip(xs, ws), start=1):
        out.append(x * w * i)
    for a, b in itertools.pairwise(xs):
        out.append(a - b)
    for x in reversed(xs):
        out.append(-x)
    out += map(torch.abs, itertools.islice(itertools.cycle(xs), 3))
    return out


for step in range(5):
    show(model([seq(2, start=i) for i in range(2 + step % 2)], [2.0, seq(2, start=5), 3]))
