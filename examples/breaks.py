"""A model that Python has to help with, for `dynrun --explain examples/breaks.py`.

Every block prints, counts its calls, or decides on a tensor's value. The report after the output names each place where
recorded code had to stop, and how often.
"""

import json

import torch
from torch import nn


class Counted(nn.Module):
    """A layer that keeps a count and a log, as research code does."""

    def __init__(self, width):
        super().__init__()
        self.layer = nn.Linear(width, width)
        self.calls = 0
        self.log = []

    def forward(self, x):
        self.calls += 1
        y = torch.relu(self.layer(x))
        self.log.append(json.dumps({"call": self.calls, "shape": list(y.shape)}))  # json is C code: an opaque call
        return y


class Model(nn.Module):
    def __init__(self, width=32, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(Counted(width) for _ in range(depth))
        self.scale = 1.0

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        if x.abs().mean() > 2.0:  # a decision on a tensor's value: two successors
            x = x / x.norm()
        while x.abs().max() < 1.0:  # a loop on a tensor's value: its body is one segment
            x = x * 1.5
        return x * self.scale


torch.manual_seed(0)
model = Model().eval()
with torch.no_grad():
    for step in range(20):
        if step == 10:
            model.scale = 0.5  # a guard misses once, and the new value gets its own segment
        out = model(torch.randn(2, 32) * (1 + step % 3))
        if step % 5 == 0:
            print(f"step {step:2}: mean {out.mean().item():+.3f}, calls {model.blocks[0].calls}")
print(model.blocks[-1].log[-1])
