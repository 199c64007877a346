import torch
from support import seq, show


class Scope:
    def __init__(self, name, swallow=False):
        self.name, self.swallow = name, swallow

    def __enter__(self):
        print("enter", self.name)
        return self

    def __exit__(self, kind, value, trace):
        print("exit", self.name, kind.__name__ if kind else None, value)
        return self.swallow


def model(x, fail):
    with Scope("outer", True) as a, Scope("inner"):
        y = x * 2
        if fail:
            raise ValueError("planned")
        return y + 1, a.name
    return x, "swallowed"


for step in range(7):
    show(*model(seq(2, start=step), step in (3, 5)))
