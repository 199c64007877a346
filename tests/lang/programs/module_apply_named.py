import torch
from torch import nn
from support import fixed, seq, show


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(2, 2)
        self.b = nn.Sequential(nn.Linear(2, 2), nn.ReLU())

    def forward(self, x):
        total = x.sum() * 0
        for name, parameter in self.named_parameters():
            if name.endswith("weight"):
                total = total + parameter.abs().sum()
        names = [name for name, _ in self.named_modules()]
        return self.b(self.a(x)) + total, names, [type(c).__name__ for c in self.children()]


model = fixed(Model())
model.apply(lambda module: setattr(module, "tag", type(module).__name__))
with torch.no_grad():
    for step in range(5):
        show(*model(seq(1, 2, start=step % 2)), model.b[0].tag)
