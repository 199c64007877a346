import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2))).eval()
with torch.no_grad():
    for step in range(9):
        x = seq(1, 3, 6, 6, start=step % 2)
        if (step // 3) % 2:
            x = x.to(memory_format=torch.channels_last)
        y = model(x)
        show(y, y.is_contiguous(), y.is_contiguous(memory_format=torch.channels_last))
