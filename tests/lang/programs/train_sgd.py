import torch
from torch import nn
from support import fixed, seq, show

model = fixed(nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)


def step_once(x, y):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.item()


for step in range(12):
    loss = step_once(seq(4, 3, start=step % 3), seq(4, 1, start=step % 3))
    if step % 3 == 2:
        print(step, round(loss, 3))
show(model[0].weight, model[2].bias, model[0].bias.grad)
