"""Views of parameters without gradients are leaves that ask for gradients; factories that ask for them are told apart."""

import torch
from support import show

weight = torch.nn.Parameter(torch.arange(4.0).view(1, 1, 4))


def views(x):
    parts = []
    parts.append(weight.expand(x.shape[0], -1, -1))
    if parts:
        x = torch.cat(parts + [x], dim=1)
    view = weight.view(-1)
    return x, view, view.requires_grad, view.is_leaf


def factory(x):
    made = torch.ones(3, requires_grad=True)
    return made, made.requires_grad, made.is_leaf, (made * x.sum()).requires_grad


for step in range(4):
    with torch.no_grad():
        show(*views(torch.full((2, 1, 4), float(step))))
        show(*factory(torch.full((2,), float(step))))
    show(*views(torch.full((2, 1, 4), float(step))))
    show(*factory(torch.full((2,), float(step))))
