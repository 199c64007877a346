"""A view that was made under no_grad before its memory was written says so when autograd asks."""
import torch


def written_after(x):
    with torch.no_grad():
        t = x.t()
        t.zero_()
    return t


def written_before(x):
    with torch.no_grad():
        x.mul_(2)
        t = x.t()
    return t


def both(x):
    t = x.t()
    t.zero_()
    return x, t, x.diagonal().sum().half().float()


def ask(t):
    try:
        return t.grad_fn
    except RuntimeError as error:
        return str(error)[:60]


for step in range(6):
    x = torch.arange(9.0).view(3, 3).add(step).requires_grad_()
    t = written_after(x)
    print(t._version, t._is_view(), t._base is x, ask(t))
    x = torch.arange(9.0).view(3, 3).add(step).requires_grad_()
    t = written_before(x)
    print(t._version, t._is_view(), t._base is x, ask(t))
    x = torch.arange(9.0).view(3, 3).add(step).requires_grad_()
    with torch.no_grad():
        x, t, s = both(x)
    print(t._version, t._is_view(), t._base is x, ask(t), ask(x), s)


def detached(x):
    return x.detach(), x.detach()[:1], x.t()


for step in range(6):
    x = torch.nn.Parameter(torch.arange(4.0).view(2, 2)) if step % 2 else torch.arange(4.0).view(2, 2)
    with torch.no_grad():
        out = detached(x)
    print([(t.requires_grad, t._is_view(), t.is_leaf) for t in out])
