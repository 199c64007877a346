# Tensors given as `out=` are given other sizes where the result has others.
import warnings

import torch

warnings.simplefilter("ignore")
torch.set_num_threads(1)
kept = torch.zeros(2)


def into_kept(x):
    torch.add(x, 1, out=kept)
    return kept.sum()


def into_argument(x, out):
    torch.add(x, 1, out=out)
    return out.sum(), out.shape, out * 2


def into_fresh(x):
    out = torch.zeros(2)
    torch.add(x, 1, out=out)
    return out.sum(), out.shape, out * 2


def into_two(x, values, indices):
    torch.sort(x, out=(values, indices))
    return values.sum() + indices.sum(), values[-1]


def with_view(x, out):
    view = out.view(-1)
    torch.add(x, 1, out=out)
    return out * 2, view * 2, view.shape


def fitting(x, out):
    torch.mul(x, 2, out=out)
    return out + 1


values, indices = torch.zeros(1), torch.zeros(1, dtype=torch.long)
for turn in range(10):
    size = 1 + turn % 3
    print(into_kept(torch.ones(size)), kept.shape)
    print(into_argument(torch.ones(3), torch.zeros(2)), into_argument(torch.ones(size), torch.zeros(2)))
    print(into_fresh(torch.ones(size)))
    print(into_two(torch.arange(float(size)).flip(0), values, indices), values, indices)
    print(with_view(torch.ones(size), torch.zeros(2, 2)))
    out = torch.zeros(size)
    print(fitting(torch.full((size,), float(turn)), out), out)
