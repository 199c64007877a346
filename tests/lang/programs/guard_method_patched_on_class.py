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


model = fixed(Block())
original, relu = Block.mix, nn.Linear.forward


def run():
    with torch.no_grad():
        for step in range(3):
            show(model(seq(1, 3, start=step % 2)))


run()
Block.mix = lambda self, x: x - 1
run()
Block.mix = original
run()
nn.Linear.forward = lambda self, x: x @ self.weight.T
run()
nn.Linear.forward = relu
run()
forward = Block.forward
Block.forward = lambda self, x: x
run()
Block.forward = forward
run()
