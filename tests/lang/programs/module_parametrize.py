import torch
from torch import nn
from torch.nn.utils import parametrize
from support import fixed, seq, show


class Symmetric(nn.Module):
    def forward(self, w):
        return w.triu() + w.triu(1).transpose(-1, -2)


model = fixed(nn.Linear(3, 3))
parametrize.register_parametrization(model, "weight", Symmetric())
for step in range(8):
    with torch.no_grad():
        show(model(seq(1, 3, start=step % 2)))
    if step == 4:
        parametrize.remove_parametrizations(model, "weight")
