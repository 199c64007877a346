import torch
from torch import nn
from support import fixed, seq, show

for hot in (1, 4):
    model = fixed(nn.Linear(3, 2))
    alias = model.weight.detach().numpy()
    bias = model.bias.data.numpy()
    with torch.no_grad():
        for turn in range(4):
            alias *= 1.5
            bias[0] += 1
            for step in range(hot):
                show(model(seq(1, 3, start=step % 2)))
late = fixed(nn.Linear(3, 2))
with torch.no_grad():
    for step in range(4):
        show(late(seq(1, 3)))
    alias = late.weight.detach().numpy()
    alias += 1
    for step in range(4):
        show(late(seq(1, 3)))
