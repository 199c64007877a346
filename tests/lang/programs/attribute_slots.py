import torch
from support import seq, show


class Point:
    __slots__ = ("x", "y", "steps")

    def __init__(self, x, y):
        self.x, self.y, self.steps = x, y, 0

    def step(self, by):
        self.x = self.x + by
        self.y *= 0.5
        self.steps += 1
        return self.x * self.y


point = Point(seq(3), seq(3, start=1))
for step in range(6):
    show(point.step(0.5 + step % 2), point.steps, point.y)
