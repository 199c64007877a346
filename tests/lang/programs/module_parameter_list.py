import torch
from torch import nn
from support import fixed, seq, show


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(3)) for _ in range(2)])
        self.named = nn.ParameterDict({"scale": nn.Parameter(torch.ones(1))})
        self.register_buffer("steps", torch.zeros(1))
        self.register_buffer("table", None)

    def forward(self, x):
        self.steps += 1
        for weight in self.weights:
            x = x * weight
        return x * self.named["scale"] + self.steps


model = fixed(Model())
with torch.no_grad():
    for step in range(6):
        show(model(seq(3, start=step % 2)), model.steps, sorted(model.state_dict()))
