"""tensor.grad read and written in recorded code: None, tensors, the same parameter twice, identity, memory that is let go."""
import gc
import weakref

import torch
from torch import nn


def show(*values):
    print(*[v.tolist() if isinstance(v, torch.Tensor) else v for v in values])


def clear(parameters):
    for p in parameters:
        if p.grad is not None:
            p.grad = None


def step(parameters, rate):
    with torch.no_grad():
        for p in parameters:
            if p.grad is not None:
                p.add_(p.grad, alpha=-rate)


def swap(p, q):
    p.grad, q.grad = q.grad, p.grad
    return p.grad, q.grad


def through(p, q, value):
    p.grad = value * 2
    return q.grad


def scale(parameters, factor):
    total = 0
    for p in parameters:
        p.grad.mul_(factor)
        total = total + p.grad.sum()
    return total


def assign(p, value):
    before = p.grad
    p.grad = value + 1
    return before, p.grad, p.grad is p.grad


def wrong(p, value):
    try:
        p.grad = value
    except (RuntimeError, TypeError) as error:
        return str(error)[:60]
    return p.grad


a, b = nn.Parameter(torch.ones(2)), nn.Parameter(torch.full((2,), 3.0))
for turn in range(6):
    clear([a, b])
    show(a.grad, b.grad)
    ((a * b).sum() + a.sum() * turn).backward()
    show(a.grad, b.grad, scale([a, b], 0.5))
    step([a, b], 0.1)
    show(a, b, a._version)
    x, y = swap(a, b)
    show(x is a.grad, y is b.grad, a.grad, b.grad)

for turn in range(6):
    p, q = (a, b) if turn % 3 else (a, a)
    a.grad, b.grad = torch.zeros(2), torch.ones(2)
    show(turn, through(p, q, torch.ones(2) * turn), a.grad, b.grad)

for turn in range(5):
    value = torch.ones(2) * turn
    before, after, same = assign(a, value)
    show(before, after, same, after is a.grad)
    print(wrong(a, torch.ones(3)), wrong(a, torch.ones(2, dtype=torch.float64)), wrong(a, "text"), wrong(a, a))

for turn in range(5):
    a.grad = torch.ones(2)
    alive = weakref.ref(a.grad)
    a.grad.mark = turn
    print(a.grad.mark, alive() is a.grad)
    clear([a])
    gc.collect()
    print(alive())

frozen = torch.ones(2)
chain = a * 2
chain.retain_grad()
for turn in range(4):
    clear([frozen])
    print(frozen.grad)
    chain = a * 2
    chain.retain_grad()
    chain.sum().backward()
    clear([chain])
    print(chain.grad)


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        with torch.no_grad():
            self.layer.weight.fill_(0.5), self.layer.bias.zero_()

    def forward(self, x):
        self.zero_grad()
        y = self.layer(x)
        return y if self.layer.weight.grad is None else y * 0


model = Hooked()
for turn in range(5):
    out = model(torch.ones(1, 2) * turn)
    out.sum().backward()
    show(out.detach(), model.layer.weight.grad, model.layer.bias.grad)
