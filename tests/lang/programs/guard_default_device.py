import torch
from support import seq, show


def model(n):
    return torch.zeros(n) + 1


for step in range(12):
    torch.set_default_device("meta" if (step // 3) % 2 else None)
    y = model(3)
    print(y.device, tuple(y.shape))
torch.set_default_device(None)
with torch.device("meta"):
    print(model(2).device)
