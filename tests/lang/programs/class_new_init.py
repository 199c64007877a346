import torch
from support import seq, show


class Single:
    instance = None

    def __new__(cls, *args):
        if cls.instance is None:
            cls.instance = super().__new__(cls)
            cls.instance.count = 0
        return cls.instance

    def __init__(self, x):
        self.x = x
        self.count += 1


class Pair(tuple):
    def __new__(cls, a, b):
        return super().__new__(cls, (a, b))

    @property
    def total(self):
        return self[0] + self[1]


class Names(dict):
    def __missing__(self, key):
        return key * 2


def model(x):
    single = Single(x * 2)
    pair = Pair(x, single.x)
    names = Names(a="b")
    return single.count, pair.total, pair, names["a"], names["zz"], single is Single(x)


for step in range(5):
    show(*model(seq(2, start=step % 2)))
