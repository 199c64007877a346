import types
import torch
from torch import nn
from support import fixed, seq, show


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def mix(self, x):
        return x * 2

    def forward(self, x):
        return self.mix(self.layer(x))


model, other = fixed(Block()), fixed(Block(), start=2)


def run():
    with torch.no_grad():
        for step in range(3):
            show(model(seq(1, 3, start=step % 2)), other(seq(1, 3)))


run()
model.mix = types.MethodType(lambda self, x: x + self.layer.bias, model)
run()
del model.mix
run()
model.layer.forward = lambda x: x * 10
run()
del model.layer.forward
run()
model.forward = lambda x: x
run()
del model.forward
run()
