import random
import torch
from support import seq, show


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        self.now += 1
        return self.now


clock = Clock()
shuffler = random.Random(3)


def model(x):
    began = clock()
    y = x * shuffler.uniform(0, 1)
    order = list(range(4))
    shuffler.shuffle(order)
    return y + began, order, clock() - began


for step in range(6):
    show(*model(seq(2)))
