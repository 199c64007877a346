import torch
from support import seq, show


def stages(x):
    yield x
    x = x * 2
    yield x
    try:
        yield x + 1
    finally:
        print("closed")


def model(x):
    total = 0
    for y in stages(x):
        total = total + y
    return total


for step in range(5):
    show(model(seq(2, start=step % 2)))
