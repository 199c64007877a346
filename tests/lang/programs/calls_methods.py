import torch
from support import seq, show


class Layer:
    gain = 2.0

    def __init__(self, weight):
        self.weight = weight

    def run(self, x):
        return self.inner(x) * self.gain

    def inner(self, x):
        return x @ self.weight

    @classmethod
    def double(cls, x):
        return x * cls.gain

    @staticmethod
    def halve(x):
        return x / 2


layer = Layer(seq(3, 3))
bound = layer.run
for step in range(6):
    x = seq(2, 3, start=step % 2)
    show(bound(x), Layer.run(layer, x), layer.double(x), Layer.double(x), layer.halve(x))
