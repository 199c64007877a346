import torch
from support import seq, show


class Scale:
    def __init__(self, by):
        self.by = by
        self.calls = 0

    def __call__(self, x):
        self.calls += 1
        return x * self.by


class Chain:
    def __init__(self, *stages):
        self.stages = stages

    def __call__(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


chain = Chain(Scale(2.0), torch.tanh, Scale(3.0), torch.nn.ReLU())
for step in range(6):
    show(chain(seq(4, start=step % 3)), chain.stages[0].calls, chain.stages[2].calls)
