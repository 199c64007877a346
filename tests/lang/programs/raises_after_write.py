"""What was written before an operator raised is written once: integer division, indices, domains; and what raises unread."""
import torch
import torch.autograd.forward_ad as forward_ad
from support import show


def remainder(x, a, t):
    x.add_(1)
    return a % t


def floored(x, a, t):
    x.add_(1)
    return a // t


def powered(x, a, t):
    x.add_(1)
    return a ** (t - 1)


def with_number(x, a, n):
    x.add_(1)
    return a % n


def in_place(x, a, t):
    a.floor_divide_(t)
    return a


def reduced(x, a, t):
    x.mul_(2)
    return torch.zeros(3).scatter_reduce(0, 4 - t, torch.ones(3), "sum")


def accumulated(x, a, t):
    x.index_add_(0, 3 - t, torch.ones(3))
    return x


def quantile(x, a, t):
    x.sub_(1)
    return torch.quantile(a.float(), t[0] / 2)


def unread(x, a, t):
    a % t
    a.long()[a > 0] // t[0]
    torch.ones(3, 3).index_reduce(0, 3 - t, torch.ones(3, 3), "prod")
    return a + 1


FUNCTIONS = (remainder, floored, powered, with_number, in_place, reduced, accumulated, quantile, unread)
for function in FUNCTIONS:
    for k in [1, 2] * 8 + [0, 1, 3]:
        x, a = torch.zeros(3), torch.arange(3) + 4
        try:
            y = function(x, a, k if function is with_number else torch.tensor([2, 1, k]) if function is in_place else torch.full((3,), k))
        except (RuntimeError, IndexError, ZeroDivisionError) as error:
            y = type(error).__name__ + str(error).splitlines()[0][:40]
        show(x, a, y)


def doubled(d):
    return d * d + 1


def tangent(step):
    return forward_ad.unpack_dual(doubled(forward_ad.make_dual(torch.ones(2), torch.ones(2) * step))).tangent


with forward_ad.dual_level():
    for step in range(8):
        show(tangent(step))
for step in range(4):
    show(doubled(torch.ones(2) * step))


def shared(x):
    return torch.where(x > 0)


for step in range(8):
    rows, columns = shared(torch.ones(2, step + 1))
    rows.add_(1)
    show(rows, columns, columns._version, columns._is_view(), columns._base is None)


def pick(x, y, at):
    """The index is a number of each replay, out of range on some."""
    x += 1
    return y[at]


def fill(x, y, value):
    """Too large a number for the type, on some."""
    x += 1
    return y.fill_(value)


for function, second, numbers in ((pick, torch.ones(2, 2), (0, 1, 0, 1, 2, -1, 3, 0)), (fill, torch.ones(2, dtype=torch.int8), (1, 2, 3, 4, 300, 5, 6)),
                                  (fill, torch.ones(2, dtype=torch.half), (1.0, 2.0, 3.0, 4.0, 1e9, 5.0))):
    for number in numbers:
        x = torch.zeros(2)
        try:
            print(function(x, second, number).tolist(), end=" ")
        except Exception as error:
            print(type(error).__name__, str(error).split("\n")[0], end=" ")
        print(x.tolist(), x._version)
