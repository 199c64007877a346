import torch
from support import seq, show


def model(x):
    return torch.ones(3) * 2, x + 1.5, torch.tensor(1.5), torch.arange(3) / 2


for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
    torch.set_default_dtype(dtype)
    for step in range(3):
        show(*model(torch.arange(3)))
torch.set_default_dtype(torch.float32)
