"""Shapes that change in f-strings and messages."""
import torch


def f(x):
    text = f"got {x.shape}"
    torch._assert(x.dim() == 2, f"Expected 2, got {x.shape!r}")
    return x * 2, text


for n in (4, 3, 5, 7, 1, 9, 3):
    y, t = f(torch.ones(n, 3)); print(t, y.sum().item())


def g(x):
    try:
        torch._assert(x.dim() == 3, f"Expected 3, got {x.shape!s}")
    except AssertionError as e:
        return x + 1, str(e)


for n in (4, 3, 5, 7, 1, 9, 3):
    y, t = g(torch.ones(n, 3)); print(t, y.sum().item())


def h(x):
    s = x.shape
    return [f"{s}", f"{s!a}", f"{x[1:].shape}|{s[0]}", "%s" % (s,), "{}".format(s), str(s)], x.sum()


for n in (4, 3, 5, 7, 2, 9, 3):
    t, y = h(torch.ones(n, 3)); print(t, y.item())
