import torch
from support import seq, show


class Box:
    def __init__(self):
        self._scale = 1.0
        self.reads = 0

    @property
    def scale(self):
        self.reads += 1
        return self._scale

    @scale.setter
    def scale(self, value):
        print("set", value)
        self._scale = value

    @scale.deleter
    def scale(self):
        print("deleted")
        self._scale = 0.0

    def model(self, x):
        return x * self.scale + self.scale


box = Box()
for step in range(8):
    if step == 3:
        box.scale = 2.5
    if step == 6:
        del box.scale
    show(box.model(seq(3, start=step % 2)), box.reads)
