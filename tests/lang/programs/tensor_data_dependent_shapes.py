import torch
from support import seq, show


def model(x):
    found = torch.nonzero(x > 0.2)
    kept = x[x > 0.2]
    values, counts = torch.unique((x * 3).int(), return_counts=True)
    return found, kept * 2, kept.shape[0], values, counts, torch.repeat_interleave(torch.arange(3), torch.tensor([1, 0, 2]))


for step in range(6):
    show(*model(seq(5, start=step * 0.8)))
