import collections
import torch
from support import seq, show


def model(x, window, counts):
    window.append(x * 2)
    counts[tuple(x.shape)] += 1
    return sum(window) / len(window)


window, counts = collections.deque(maxlen=3), collections.Counter()
for step in range(8):
    show(model(seq(2 if step < 5 else 1, start=step), window, counts), sorted(counts.items()))
