import torch
from support import seq, show


def counted():
    calls = 0
    last = None

    def model(x):
        nonlocal calls, last
        calls += 1
        previous, last = last, x
        if previous is None:
            return x
        return x + previous * calls

    return model, lambda: calls


model, calls = counted()
for step in range(8):
    show(model(seq(3, start=step % 2)), calls())
