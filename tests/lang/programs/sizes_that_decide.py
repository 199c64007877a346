"""Branches on tensors that follow from sizes alone: positions, masks of lengths."""
import torch
from support import seq, show


def packed(x):
    """Whether positions go on without a jump, as transformers asks."""
    positions = torch.arange(x.shape[1], device=x.device).unsqueeze(0)
    first = positions[:, :1] - 1
    jumps = (torch.diff(positions, prepend=first, dim=-1) != 1).cumsum(-1)
    if (jumps[:, -1] == 0).all():
        return x + positions
    return x * 0


def long_ones(x):
    if torch.arange(x.shape[1]).sum() > 10:
        return x[:, 5:] * 2
    return x - 1


def last_is_even(x):
    while not torch.full((x.shape[0],), x.shape[1]).prod() % 2 == 0:
        x = x[:, 1:]
    return x


def written(x):
    """What was written in between is no longer what sizes made it."""
    lengths = torch.arange(x.shape[1])
    lengths.mul_(x[0, 0].int())
    return x + 1 if (lengths == 0).all() else x - 1


def counted(x):
    mask = torch.ones(x.shape[1], dtype=torch.bool)
    mask[x.shape[1] // 2 :] = False
    if mask.sum() > 3:
        return x.masked_fill(mask, 0.0)
    return x[:, : int(mask.sum())]


for function in (packed, long_ones, last_is_even, written, counted):
    for rows, columns in ((2, 4), (2, 4), (2, 5), (2, 6), (3, 7), (2, 7), (2, 8), (4, 3), (2, 9), (1, 9), (3, 1), (2, 12), (2, 13), (2, 12), (2, 5), (2, 13)):
        show(function(seq(rows, columns)), function(seq(rows, columns, start=1)))
