"""Sizes that data decides where one choice follows another, where operators copy only if they have to, and where they warn."""
import warnings

import torch
import torch.nn.functional as F
from support import show

X = torch.arange(32.0).view(8, 4) / 32
COLUMNS, COUNTS = torch.tensor([True, False, True, True]), torch.tensor([1, 2, 0, 1])


def masked_twice(m):
    z = X.t()[:, m][COLUMNS]
    w = z.sum(0)
    return w * 2 + 1, w.shape[0]


def repeated(m):
    z = torch.repeat_interleave(X[m], COUNTS, dim=1)
    w = z.sum(1).clone()
    return w.mul_(2), w.shape[0]


def inverse(m):
    found, where = torch.unique(X[m], return_inverse=True)
    return found, where, where.shape[0]


def contiguous(m):
    y = X[m].t()
    z = y.contiguous()
    z.add_(1)
    return y + 0, z, y is z, z._is_view(), z.stride()


def reshaped(m):
    y = X[m].t()
    z = y.reshape(-1)
    return z, z._is_view(), X[m].reshape(-1, 2)._is_view(), X[m].flatten() * 2


def dropped(m):
    y = X[m]
    z = F.dropout(y, 0.5, True)
    return z.sum(0), z is y, torch.rand(1), F.dropout(y, 0.5, False) is y


def strides(m):
    z = X[m].select(1, 1)
    return (z.relu() * 2 + 1).stride(), (X[m][:, :1] * 2).stride()


def summed(m):
    return torch.einsum("ij->ij", X[m]) * 2, torch.einsum("ij,ij->i", X[m], X[m])


def warns(m):
    return X[m].var(0)


def outside(m, kept=torch.zeros(4)):
    kept.add_(X[m].sum(0))
    small, rows = X[m], X[m.flip(0)]
    try:
        return small + rows, kept
    except RuntimeError:
        return "raised", kept


torch.manual_seed(1)
with torch.no_grad():
    for function in (masked_twice, repeated, inverse, contiguous, reshaped, dropped, strides, summed, outside):
        for counts in ((5, 5, 5, 5, 7, 3, 1, 0, 8), (1, 1, 1, 3, 4), (4, 4, 4, 2, 7, 0, 1, 5), (0, 0, 0, 2, 1)):
            for n in counts:
                show(function.__name__, n, function(torch.arange(8) < n))
    for how in ("error", "always"):
        with warnings.catch_warnings(record=how == "always") as seen:
            warnings.simplefilter(how)
            for n in (5, 5, 5, 1, 4, 0, 1, 5):
                try:
                    show("warns", n, warns(torch.arange(8) < n))
                except UserWarning as warning:
                    show("warned", n, str(warning)[:30])
            show([str(one.message)[:30] for one in seen or []])
