import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))).eval()
with torch.no_grad():
    for dtype in (torch.float32, torch.float64, torch.float32, torch.float64):
        model.to(dtype)
        for step in range(3):
            show(model(seq(2, 3, start=step % 2, dtype=dtype)))
