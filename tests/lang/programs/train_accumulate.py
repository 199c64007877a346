import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Linear(3, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
total = 0.0
for step in range(12):
    loss = (model(seq(2, 3, start=step)) ** 2).mean() / 4
    loss.backward()
    total += loss.item()
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
        print(step, round(total, 2))
        total = 0.0
show(model.weight)
