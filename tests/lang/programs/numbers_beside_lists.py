"""A number that changes, given behind a list of sizes, one of which it equals in some calls."""
import torch
import torch.nn.functional as F
from support import seq, show


def full(x, n):
    return torch.full((3, 2), n)


def new_full(x, n):
    return x.new_full((n, 2), n)


def padded(x, n):
    return F.pad(x, (1, 1, 2, 1), value=n)


def padded_by(x, n):
    return F.pad(x, (n, 2, 1, 1), value=n)


def strided(x, n):
    return x.as_strided((2, 2), (1, 2), n)


def one_by_one(x, n):
    return x.repeat(n, 2), x.reshape(-1)[:n * 2].view(n, 2), x[:1, :1].expand(n, 2), torch.zeros(n, 2), torch.ones(2, n)


def reduced(x, n):
    return x.sum((0, 1), keepdim=n > 2), x.roll((1, 2), (0, 1)) + n, x.unflatten(1, (2, 6)) * n


for function in (full, new_full, padded, padded_by, strided, one_by_one, reduced):
    for numbers in ((5, 3, 2, 4, 6, 2), (2, 2, 2, 3, 4, 2), (1, 3, 1, 2, 2, 4, 1, 3)):
        for n in numbers:
            result = function(seq(2, 12), n)
            print(function.__name__, n, end=" ")
            show(*result) if isinstance(result, tuple) else show(result)
