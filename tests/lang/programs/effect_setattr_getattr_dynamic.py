import torch
from torch import nn
from support import seq, show


class Model(nn.Module):
    def forward(self, x, name):
        setattr(self, name, x * 2)
        value = getattr(self, name) + getattr(self, "missing", 1)
        if hasattr(self, "old"):
            delattr(self, "old")
            value = value * 10
        self.old = 1
        return value, sorted(k for k in self.__dict__ if not k.startswith("_"))


model = Model()
for step in range(6):
    show(*model(seq(2, start=step % 2), "ab"[step % 2]))
