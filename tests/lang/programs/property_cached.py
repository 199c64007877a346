import functools
import torch
from support import seq, show


class Model:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def weight(self):
        print("computing the weight")
        return seq(self.n, self.n)

    def run(self, x):
        return x @ self.weight


model = Model(3)
for step in range(8):
    show(model.run(seq(2, 3, start=step % 2)))
    if step == 4:
        del model.weight
