import functools
import torch
from support import seq, show


def model(tensors):
    ordered = sorted(tensors, key=lambda t: t.sum().item())
    doubled = list(map(lambda t: t * 2, ordered))
    kept = list(filter(lambda t: t[0] > 0, doubled))
    total = functools.reduce(lambda a, b: a * 0.5 + b, doubled)
    return ordered[0], doubled, len(kept), total, max(tensors, key=lambda t: t[0].item()), min(t.shape[0] for t in tensors)


for step in range(5):
    show(*model([seq(2, start=i + step % 2) for i in range(3)]))
