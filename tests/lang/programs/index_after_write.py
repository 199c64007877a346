"""An index that is another number on each call and out of range on some, behind a write to an outside tensor, which happens once."""
import torch


def pair(a, b):
    return (a, b), 1


def row(x, y, n):
    x.narrow(0, 0, 1).sin_()
    (a, b), c = pair(y[n % 2], y.sum())
    return a + b + c


def item(x, y, n):
    x.mul_(2)
    return y[n % 3, n % 2]


def from_the_end(x, y, n):
    x.add_(1)
    return y[-1 - n % 2] * 2


def with_slices(x, y, n):
    x.add_(1)
    return y[:, n % 4 :, None][..., n % 2]


def stepped(x, y, n):
    x.add_(1)
    return y[:, :: n % 3]


def in_a_loop(x, y, n):
    total = 0
    for i in range(n % 4):
        x[0] += 1
        total = total + y[i]
    return total


def columns(x, y, n):
    x.sub_(1)
    return y.t()[n % 5] + y.select(1, n % 4)


for step in range(24):
    for function in (row, item, from_the_end, with_slices, stepped, in_a_loop, columns):
        for rows in (1, 2):
            x, y = torch.arange(9.0).reshape(3, 3), torch.arange(9.0).reshape(3, 3)[:rows]
            try:
                result = function(x, y, step // 2)
            except (IndexError, ValueError) as error:
                result = type(error).__name__
            print(step, function.__name__, rows, result, x.tolist(), x._version)
