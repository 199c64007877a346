import torch
from torch import nn
from support import fixed, seq, show


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.calls = 0
        self.history = []

    def forward(self, x):
        self.calls += 1
        y = self.layer(x)
        self.history.append(tuple(y.shape))
        self.last = y
        return y * self.calls


model = fixed(Counting())
with torch.no_grad():
    for step in range(7):
        y = model(seq(1 + step % 3, 3, start=step % 2))
        show(y, model.calls, model.history, model.last)
