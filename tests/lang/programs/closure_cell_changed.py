import torch
from support import seq, show


def make():
    scale = 1.0

    def inner(x):
        return x * scale

    def change(value):
        nonlocal scale
        scale = value

    return inner, change


inner, change = make()
for value in (1.0, 4.0, 1.0, -2.0, 4.0):
    change(value)
    for step in range(3):
        show(value, inner(seq(3, start=step)))
inner.__closure__[0].cell_contents = 7.0
for step in range(3):
    show(inner(seq(3, start=step)))
