"""Sizes that are others on each call: read, computed with, compared, used as sizes, in slices, and of what was computed."""
import torch
from support import seq, show


def views(x, w):
    b, n = x.shape[0], x.size(1)
    y = (x.view(b * n, -1) @ w).view(b, n, -1).transpose(0, 1)
    y = y.reshape(n, *y.shape[1:]) + torch.arange(n).view(n, 1, 1)
    if n > 6:
        y = y * 2
    z = y[: n - 1] + y[1:]
    return z.sum(-1) / n, z.shape, torch.zeros(b, n), x.numel(), len(y)


def parts(x, w):
    n = x.size(1)
    halves = x[:, : n // 2], x[:, n // 2 :], x[:, :3], x[:, -2:], x[:, n - 1], x[..., None, 1:]
    return [part.shape for part in halves], torch.cat(halves[:2], 1) + x, halves[2].sum(), tuple(h.is_contiguous() for h in halves)


def rows(x, w):
    total = torch.zeros(x.shape[-1])
    for row in x[0]:
        total = total + row
    first, *rest = x.unbind(0)
    return total, first.shape == x.shape[1:], len(rest), x.split(2, 1)[-1].shape


def written(x, w):
    out = x.new_zeros(x.shape)
    out[:, 1:] = x[:, :-1]
    out[:, 0] = 1
    out[0] = w[0]
    x += x.shape[1]
    return out, x, x._version


def asked(x, w):
    text = f"{x.shape[1]} of {tuple(x.shape)}"
    return text, x.stride(), x.is_contiguous(), x.transpose(0, 1).contiguous().stride(), {x.shape[1]: x.dim()}, x.shape


def numbers(x, w, n=[0]):
    n[0] += 1
    return torch.ones(n[0], x.shape[1]), torch.full((2, n[0]), 0.5), x.repeat(1, n[0], 1).shape, torch.arange(n[0], x.shape[1] + 9)


def square(x, w):
    """Sizes that are the same on some calls: what is left out, or broadcast, then."""
    n = x.shape[1]
    return x[:, :4].shape, x[:, :n].shape, x[:3].shape, (x + x[:, :1]).shape, x.squeeze(0).shape


for function in (views, parts, rows, written, asked, numbers, square):
    for grad in (False, True):
        for b, n in ((2, 3), (2, 3), (2, 3), (2, 4), (2, 5), (2, 5), (3, 7), (3, 4), (4, 10), (2, 6), (1, 5), (5, 1), (5, 20), (2, 20), (5, 20), (5, 20), (3, 4), (2, 2)):
            with torch.set_grad_enabled(grad):
                try:
                    show(function(seq(b, n, 8), seq(8, 8)))
                except Exception as error:
                    print(type(error).__name__, str(error).split("\n")[0])
