import torch
from torch import nn
from support import fixed, seq, show


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)


class Residual(Plain):
    def forward(self, x):
        return x + super().forward(x)


class Twice(Residual):
    def forward(self, x):
        return super().forward(super().forward(x))


model = fixed(Twice())
with torch.no_grad():
    for step in range(6):
        show(model(seq(2, 4, start=step % 2)))
