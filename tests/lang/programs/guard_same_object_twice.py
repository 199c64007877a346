import torch
from support import seq, show


def model(items, others):
    items.append(1)
    return len(others), items is others, len(items)


for step in range(12):
    a = [0]
    b = a if (step // 3) % 2 else [0]
    show(*model(a, b))
