import torch
from support import seq, show


def model(x):
    kept = [y for i in range(4) if (y := x * i) is not None and i % 2]
    if (total := sum(kept)).dim() == 1:
        total = total + y
    return kept, total


for step in range(5):
    show(*model(seq(2, start=step % 2)))
