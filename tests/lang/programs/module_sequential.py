import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4)), nn.Tanh()))
with torch.no_grad():
    for step in range(6):
        show(model(seq(2, 3, start=step % 2)), model[:2](seq(1, 3)), len(model), model[-1](seq(2)))
