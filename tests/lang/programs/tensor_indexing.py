import torch
from support import seq, show


def model(x, i, mask):
    ids = torch.tensor([2, 0])
    y = x.clone()
    y[ids] = 1.0
    y[mask] += 2
    y[..., -1] = x[i]. sum()
    y[[0, 1], [1, 0]] = -3.0
    return x[i], x[i, 1:], x[:, None, 0], x[ids], x[mask], x[ids, ids], x[-1, ...], y, x[i:i + 2], x[torch.tensor(1)], x[0, 1].item() == y[0, 1]


for step in range(8):
    x = seq(3, 3, start=step % 2)
    show(*model(x, step % 3 % 2, x > 0))
