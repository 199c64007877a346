import torch
from torch import nn
from support import fixed, seq, show


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.scale = 2.0
        self.act = torch.relu
        self.names = ["a", "b"]

    def forward(self, x):
        return self.act(self.layer(x)) * self.scale + len(self.names)


model = fixed(Model())
with torch.no_grad():
    for scale, act, names in ((2.0, torch.relu, 2), (3.0, torch.relu, 2), (2.0, torch.tanh, 2), (2.0, torch.relu, 3), (2.0, torch.relu, 2)):
        model.scale, model.act = scale, act
        model.names[:] = ["n"] * names
        for step in range(3):
            show(model(seq(2, 3, start=step % 2)))
