import torch
from support import seq, show


def model(x):
    torch.rand(2)
    unused = torch.randn(3)
    return x * 2


torch.manual_seed(0)
for step in range(5):
    show(model(seq(2)), torch.rand(1))
