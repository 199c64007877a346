"""Operators that write the tensors of a list: parameters, buffers, what was just computed, views, and what is read before and after."""
import torch
from support import seq, show
from torch import nn


class Averaged(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("mean", torch.zeros(3))
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(seq(*p.shape))

    def forward(self, x):
        torch._foreach_add_([self.mean], 1.0)
        return self.layer(x) + self.mean.flatten()[:1] * 2 + self.mean


class Moving(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(seq(3, 3), requires_grad=False)
        self.bias = nn.Parameter(seq(3), requires_grad=False)

    def forward(self, x):
        before = nn.functional.linear(x, self.weight, self.bias) + self.bias * 2
        torch._foreach_mul_([self.weight, self.bias], 0.5)
        torch._foreach_lerp_([self.weight], [torch.ones(3, 3)], 0.25)
        after = nn.functional.linear(x, self.weight, self.bias)
        self.bias.add_(1)
        return before, after, self.weight @ self.weight, self.bias - 1


def intermediates(x):
    a, b = x * 2, x + 1
    c = a.relu()
    torch._foreach_add_([a, b], [b, x])
    torch._foreach_neg_((c,))
    return a + c, b * a, c


def through_views(x):
    y = x * 1
    torch._foreach_add_([y[0], y[1:]], 3.0)
    torch._foreach_zero_(list(y[:, :1].unbind(0)))
    return y + 1, y.sum(0)


def results(x):
    a, b = torch._foreach_mul([x, x + 1], 2.0)
    torch._foreach_add_([a], [b], alpha=2)
    norms = torch._foreach_norm([a, b])
    torch._foreach_clamp_max_([a, b], 5.0)
    return a, b, torch.stack(norms), torch._foreach_maximum([a], 0.0)[0]


def average(target, source, decay=0.9):
    torch._foreach_mul_(target, decay)
    torch._foreach_add_(target, source, alpha=1 - decay)
    return sum(t.sum() for t in target)


averaged, moving = Averaged(), Moving()
kept = [seq(3), seq(3, 3)]
for step in range(8):
    x = seq(2, 3, start=step % 3)
    with torch.no_grad():
        show(averaged(x), averaged.mean)
        show(moving(x), moving.bias, moving.weight)
        show(intermediates(x), through_views(x), results(x), x)
        show(average(kept, [seq(3, start=step), seq(3, 3, start=1)]), kept)
    show(averaged(x), averaged.mean, averaged.mean._version)
