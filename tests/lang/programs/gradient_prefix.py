"""Operators before the first one that needs gradients, in one function with those that do."""
import torch
from torch import nn


def forward(x, w, scale):
    y = (x * scale + 1).relu().tanh() * 3
    z = y @ w
    return y, z, (z * y.sum()).sum()


def view_between(x, w):
    y = ((x * 2).relu() + 1).t()
    y = y[:2]
    return (y @ w).sum(), y


def written_after(x, w):
    y = (x * 2).relu().tanh()
    z = y @ w
    y.add_(1)
    return z.sum(), y


def dropped(x, w):
    y = torch.nn.functional.dropout((x * 2).relu() + 0.5, 0.5)
    return (torch.nn.functional.dropout(y @ w, 0.5)).sum(), y


torch.manual_seed(0)
w = nn.Parameter(torch.randn(3, 3))
for step in range(6):
    x = torch.arange(9.0).view(3, 3).mul(0.1) + step
    y, z, loss = forward(x, w, 0.5)
    loss.backward()
    print([round(v, 3) for v in (loss.item(), y.sum().item(), w.grad.sum().item())], y.requires_grad, z.requires_grad, y.grad_fn, y._version)
    w.grad = None
    for function in (view_between, written_after, dropped):
        try:
            loss, y = function(x, w)
            loss.backward()
            print(function.__name__, round(loss.item(), 3), [round(v, 3) for v in w.grad.flatten().tolist()][:3], y.requires_grad, y._version, y._is_view())
        except RuntimeError as error:
            print(function.__name__, str(error)[:70])
        w.grad = None
