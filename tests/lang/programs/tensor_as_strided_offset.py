import torch
from support import seq, show


def absolute(x):
    return x.as_strided((2, 2), (1, 2), 1), x.as_strided((2,), (3,)) * 2


def of_fresh(x):
    y = x * 2
    z = y[2:]
    return z.as_strided((3,), (1,), 0) + 1, torch.as_strided_copy(z, (2, 2), (2, 1), 1), torch.as_strided_scatter(y, z[:2], (2,), (4,), 3)


def written(x):
    view = x.as_strided((2,), (2,), 0)
    view.mul_(10)
    return x + 1, view


def returns(x):
    values = torch.linalg.qr(x)
    return values.Q @ values.R, torch.sort(x).indices, torch.max(x, 0).values


whole = seq(20)
for start in (0, 3, 5, 3):
    part = whole[start:start + 12]
    show(*absolute(part))
    show(*of_fresh(part))
    show(*written(part.clone()[2:]))
    show(*returns(part.reshape(3, 4)))
base = seq(12)
for start in (0, 2, 4):
    show(*written(base[start:]), base)
