import torch
from support import seq, show


def model(iterator, x):
    try:
        while True:
            x = x + next(iterator)
    except StopIteration:
        return x


for step in range(6):
    show(model(iter([seq(2, start=i) for i in range(2 + step % 2)]), seq(2)), next(iter([]), "none"))
