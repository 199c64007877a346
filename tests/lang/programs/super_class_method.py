"""C methods that super() binds, called where a segment ends: not what the class itself has under that name."""
import json
import sys

import torch


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, deepest):
        deepest.append(depth())
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2, None


def depth():
    frame, count = sys._getframe(), 0
    while frame:
        frame, count = frame.f_back, count + 1
    return count


class Table(dict):
    made = 0

    @classmethod
    def fromkeys(cls, keys, value=None):
        cls.made += 1
        return super().fromkeys(json.loads(keys), value)

    def get(self, key, otherwise=None):
        Table.made += 10
        return super().get(json.loads(key), otherwise)


class Meta(type):
    asked = 0

    def mro(cls):
        Meta.asked += 1
        return super().mro()

    def __subclasses__(cls):
        Meta.asked += 1
        return super().__subclasses__()


class Of(metaclass=Meta):
    pass


def custom(x, deepest):
    for _ in range(3):
        x = Double.apply(x + 1, deepest)
    return x


def tables(x):
    table = Table.fromkeys('["a", "b"]', x + 1)
    return table["a"] * 2 + table.get('"b"') + table.get('"c"', x)


def classes(x):
    return x * len(Of.__subclasses__()) + len(Of.mro())


for turn in range(8):
    deepest = []
    with torch.set_grad_enabled(turn % 2 == 0):
        print(custom(torch.ones(2) * turn, deepest).tolist(), max(deepest) - min(deepest), deepest[0] - depth())
    print(tables(torch.ones(2) * turn).tolist(), Table.made)
    print(classes(torch.ones(2) * turn).tolist(), Meta.asked)
weight = torch.ones(2, requires_grad=True)
for turn in range(400):
    custom(weight, []).sum().backward()
print(weight.grad.tolist())
