import torch
from support import seq, show


class Model:
    sizes = [2, 3]
    weights = [seq(size) for size in sizes]

    def run(self, x):
        return [x.sum() * w for w in self.weights], [c for c in "ab" for _ in self.sizes]


model = Model()
for step in range(5):
    show(*model.run(seq(3, start=step % 2)))
