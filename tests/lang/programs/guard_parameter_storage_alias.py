import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Conv2d(1, 2, 2))
x = seq(1, 1, 3, 3)
with torch.no_grad():
    for step in range(4):
        show(model(x))
    detached = model.weight.detach()
    detached.mul_(2)
    for step in range(3):
        show(model(x))
    storage = model.weight.untyped_storage()
    flat = torch.empty(0).set_(storage)
    flat[0] = 5.0
    for step in range(3):
        show(model(x))
    exchange = torch.from_dlpack(model.weight.detach())
    exchange[0, 0, 0, 0] = -3.0
    for step in range(3):
        show(model(x))
