import torch
from support import seq, show


def collect(x, seen=[]):
    seen.append(float(x.sum() > 0))
    return x * len(seen), list(seen)


for step in range(6):
    show(*collect(seq(3, start=step)))
