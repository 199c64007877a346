import torch
from support import seq, show


def build():
    late = [lambda x: x * i for i in range(3)]
    early = [lambda x, i=i: x * i for i in range(3)]
    return late, early


late, early = build()
for step in range(5):
    x = seq(2, start=step)
    for f, g in zip(late, early):
        show(f(x), g(x))
