"""Operators that take functions: torch looks for their kernels by the dispatch keys that are on."""

import torch
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention import flex_attention


def choose(x):
    return torch.cond(x.sum() > 0, lambda q: q + 1, lambda q: q - 1, (x,))


def count(x):
    return while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 2), (torch.tensor(0), x))


def attend(q):
    return flex_attention.flex_attention(q, q, q, score_mod=lambda score, b, h, i, j: score - (i - j).abs() * 0.1)


flex_attention._FLEX_ATTENTION_DISABLE_COMPILE_DEBUG = True  # no warning
torch.manual_seed(0)
q = torch.randn(1, 2, 16, 16)
for turn in range(8):
    print(choose(torch.tensor([1.0, 2.0]) * (-1) ** turn).tolist(), [t.tolist() for t in count(torch.ones(2) + turn)])
    print("%.4f" % attend(q + turn).sum().item())
