import torch
from support import seq, show


def model(x, generator):
    return x * torch.rand(3, generator=generator), torch.normal(0.0, 1.0, (2,), generator=generator)


first, second = torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)
for step in range(8):
    show(*model(seq(3), first if step % 3 else second), torch.initial_seed() != 1)
