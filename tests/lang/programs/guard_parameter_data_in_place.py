import torch
from torch import nn
from support import fixed, seq, show

for hot in (1, 4):
    model = fixed(nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))).eval()
    x = seq(1, 1, 4, 4)
    with torch.no_grad():
        for factor in (1.0, 2.0, 0.5, -1.0):
            for p in model.parameters():
                p.data.mul_(factor)
            for step in range(hot):
                show(model(x + step % 2))
        for factor in (2.0, 0.5):
            for p in model.parameters():
                p.mul_(factor)
            for step in range(hot):
                show(model(x + step % 2))
