import torch
from support import seq, show


def unused(x):
    class Helper(torch.autograd.Function):
        """Never called."""

        @staticmethod
        def forward(ctx, y):
            return y * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    return x + 1


def used(x, scale):
    class Box:
        factor = 3

        def __init__(self, value):
            self.value = value * scale

        @property
        def doubled(self):
            return self.value * 2

    y = x.exp()
    box = Box(y)
    Box.factor = 4
    return box.doubled * Box.factor, Box.__name__, Box.__qualname__, isinstance(box, Box)


def returned(x):
    class Marker:
        kind = "marker"

    z = x * 2
    return z, Marker


kinds = []


def with_effect(x):
    class Noted:
        kinds.append(len(kinds))

    return x - 1, Noted.__name__


previous = None
for step in range(4):
    x = seq(3, start=step)
    show(unused(x))
    show(*used(x, step + 1.5))
    z, marker = returned(x)
    show(z, marker.kind, str(marker is previous), marker.__module__)
    previous = marker
    show(*with_effect(x))
print(kinds)
