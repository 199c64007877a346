"""Counters, loop indices and values of tensors as numbers: many turns, few segments, the same results."""

import torch
from support import seq, show

total = 0


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step, self.scale, self.seen = 0, 1.0, []

    def forward(self, x, *rest):
        global total
        self.step += 1
        total += self.step * 2
        self.scale = self.scale * 0.5 + 1
        if self.step % 4 == 0:
            x = x + 1
            self.seen.append(self.step)
        if self.step == 5:
            self.step += 100
        return x * self.step + self.scale + sum(rest), self.step, f"step {self.step}"


def indexed(x, n):
    for i in range(n):
        x = torch.sin(x * 0.5 + i)
        if i % 50 == 49:
            x = x * 0 + i
    return x, i


def counted(x, n):
    i, s = 0, 0.0
    while i < n:
        x = x * 0.5 + i
        i += 1
        s += i / 2
    return x, i, s


def by_value(x):
    turns = 0
    while x.sum() < 40:
        x = x + 1
        turns += 1
    return x, turns


def item(x):
    s = x.sum().item()
    n = int(x.max()) % 3 + 1
    return x * s + n, s > 10, n, float(x[0, 0]) * 2


def closure():
    count = 0

    def inner(x):
        nonlocal count
        count += 1
        return x + count, count

    return inner


module = Counting()
inner = closure()
for turn in range(12):
    show(*module(seq(2, 2), turn, turn * 0.5), module.step, module.scale, module.seen, total)
    show(*inner(seq(2)))
    show(*item(seq(2, 2, start=turn)))
    show(*by_value(seq(2, 2, start=-turn)))
for n in (3, 70, 300, 300, 10):
    show(*indexed(seq(2), n))
    show(*counted(seq(2), n))
