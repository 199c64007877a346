"""Numbers at the edges of their types in fused kernels: casts that do not fit, powers and sums of half types as eager rounds them, moments
of large, tiny, equal and far shifted numbers."""

import math

import torch
import torch.nn.functional as F

TYPES = (torch.int32, torch.int64, torch.int16, torch.int8, torch.uint8, torch.bool)
VALUES = (math.inf, -math.inf, math.nan, 3e10, -3e10, 300.7, -1.5)


def casts_of_constants(x):
    return [torch.full_like(x, value).to(dtype) + 0 for value in VALUES for dtype in TYPES]


def casts(x):
    return [(x * 0 + value).to(dtype) + 0 for value in (math.inf, -math.inf, 3e10, -3e10, 300.7, -1.5) for dtype in TYPES]


def powers(x):
    return x ** 3, x ** 2, (x ** 3) % 0.5


def scaled_sums(x, y):
    return torch.add(x, y, alpha=3), torch.sub(x, y, alpha=0.3), x + y


def moments(x):
    return x.std(-1), x.var(-1), x.std(), x.var(), x.std(0)


def normalised(x):
    return F.layer_norm(x, x.shape[-1:]), F.group_norm(x.unsqueeze(1), 1)


for turn in range(4):
    for count in (3, 40):
        x = torch.ones(count)
        print([(y[0].item(), y[-1].item()) for y in casts_of_constants(x)])
        print([(y[0].item(), y[-1].item()) for y in casts(x)])
    numbers = torch.Generator().manual_seed(turn)
    for dtype in (torch.half, torch.bfloat16):
        x, y = (torch.randn(8, 33, generator=numbers).mul(2).to(dtype) for _ in range(2))
        for a, b in ((x, y), (x.t(), y.t().contiguous()), (x[:, ::2], y[:, 1::2].contiguous()[:, :16].repeat(1, 2)[:, :17])):
            print([z.double().sum().item() for z in (*powers(a), *scaled_sums(a, b))])
    for x in (torch.tensor([[1e30, 1e30, 1.0, 1.0], [1e-25, 2e-25, 3e-25, 5e-25]]), torch.full((3, 70), 0.1), torch.full((3, 7), 12345.67),
              torch.randn(4, 64, generator=numbers) + 1e6, torch.randn(4, 64, generator=numbers) * 1e-3):
        print(["%.4g" % z for part in moments(x) for z in part.flatten()[:3].tolist()])
        if x.min() == x.max():
            print([y.abs().max().item() < 1e-7 for y in normalised(x)])
