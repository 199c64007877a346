import torch
from torch import nn
from support import fixed, seq, show

model = nn.utils.parametrizations.weight_norm(fixed(nn.Linear(3, 2)))
for step in range(5):
    y = model(seq(1, 3, start=step % 2))
    y.sum().backward()
    show(y, model.bias.grad)
