import torch
from support import seq, show


def model(x):
    values, order = torch.sort(x, descending=True)
    top = x.topk(2)
    low = x.min(dim=0)
    return values, order, top.values, top[1], low.values, low.indices, x.median(), torch.argsort(x)


for step in range(5):
    show(*model(seq(5, start=step % 2)))
