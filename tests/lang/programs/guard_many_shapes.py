import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()))
with torch.no_grad():
    for n in (1, 2, 3, 4, 5, 6, 7, 8, 3, 3, 17, 1, 0, 2):
        show(n, model(seq(n, 4)))
