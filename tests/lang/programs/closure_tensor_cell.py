import torch
from support import seq, show


def accumulator(shape):
    total = torch.zeros(shape)

    def add(x):
        nonlocal total
        total = total + x
        return total

    def add_in_place(x):
        total.add_(x)
        return total

    return add, add_in_place


add, add_in_place = accumulator((3,))
for step in range(6):
    a = add(seq(3, start=step))
    b = add_in_place(seq(3, start=step))
    show(a, b, a is b)
