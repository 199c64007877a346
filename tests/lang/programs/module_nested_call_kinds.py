import torch
from torch import nn
from support import fixed, seq, show


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x, scale=1.0, *, shift=None):
        y = self.layer(x) * scale
        return y if shift is None else y + shift

    def helper(self, x):
        return self.forward(x, 2.0) + self(x, shift=x)


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Inner(), Inner()

    def forward(self, *xs, **options):
        return [self.a(x, **options) + self.b.helper(x) for x in xs]


model = fixed(Outer())
with torch.no_grad():
    for step in range(6):
        x = seq(1, 3, start=step % 2)
        show(model(x), model(x, x + 1, scale=3.0), model.a.forward(x))
