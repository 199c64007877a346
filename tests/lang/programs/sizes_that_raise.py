"""An operator that raises at some sizes, after something outside was written: written once, and not twice."""
import copy

import torch
from support import show

torch.manual_seed(0)
norm = torch.nn.BatchNorm1d(3)


def too_late(x):
    k = int(copy.copy(x).sum().item() * 2) % 3
    norm(torch.rand_like(x))


for step in range(12):
    x = torch.ones([(3, 3), (4, 2)][step % 2])
    try:
        with torch.set_grad_enabled(step % 3 != 2):
            too_late(x)
    except RuntimeError as error:
        print(error)
    print(norm.num_batches_tracked._version)
show(dict(norm.named_buffers()))
