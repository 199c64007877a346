"""What fused kernels must round, and how they add up: results that are equal to the last digit, or as near to the truth as eager's."""

import math

import torch
import torch.nn.functional as F


def differences(a, b):
    return a * a - b * b, (a * a - b * b) == 0, ((a * 0.1 + 0.3) * 10).floor().long()


def bounded(x):
    nan = torch.full_like(x, math.nan)
    return torch.maximum(x, nan), torch.minimum(x, nan), torch.clamp(x, min=nan), torch.clamp(x, 0.0, 1.0), F.relu6(x)


def in_half(x):
    return x.sum(1, dtype=torch.half), x.mean(1, dtype=torch.bfloat16), x.sum(1)


def truths(x):
    b = x > 0
    return b.masked_fill(b | ~b, 0.5), torch.full_like(b, 0.5), (x < 0).fill_(0.5), b.new_full((3,), -0.25)


def gelus(x):
    return F.gelu(x) + 0


def sums(x):
    return x.sum(0), x.mean(0), (x * 2).sum(), x.var(0)


for turn in range(4):
    values = torch.arange(3000.0) * 0.37
    difference, zero, _ = differences(values, values.clone())
    print(difference.abs().max().item(), zero.all().item(), differences(torch.arange(3000.0), torch.ones(3000))[2].sum().item())
    print([t.tolist() for t in bounded(torch.tensor([1.0, -2.0, math.nan, 0.5, math.inf]))])
    print([t.tolist() for t in in_half(torch.tensor([[70000.0, -60000.0]] * 3))])
    print([t.all().item() for t in truths(torch.tensor([1.0, -1.0, 0.0]))])
    for x in (torch.tensor([math.inf, 1.0, 2.0] * 4)[::2], torch.tensor([math.inf, 1.0, 1.0] * 4).view(3, 4).t(), torch.tensor([math.inf, 1.0, 1.0] * 4).view(3, 4)):
        print([round(y, 4) for y in gelus(x).flatten().tolist()[:4]])
    for x in (torch.full((1 << 18, 16), 0.1), torch.rand(50000, 33, generator=torch.Generator().manual_seed(turn)), torch.full((70, 3), 0.1)):
        exact = sums(x.double())
        print([bool(((got - right).abs() <= 2e-6 * right.abs().clamp(min=1e-3)).all()) for got, right in zip(sums(x), exact)])
