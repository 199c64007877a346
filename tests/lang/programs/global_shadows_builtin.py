import torch
from support import seq, show


def model(x):
    return x * len([1, 2, 3]) + max(1, 2)


for step in range(4):
    show(model(seq(2, start=step)))
len = lambda values: 10
for step in range(4):
    show(model(seq(2, start=step)))
del len
for step in range(4):
    show(model(seq(2, start=step)))
