import torch
from support import seq, show


def gen(x):
    for i in range(3):
        print("produce", i)
        yield x * i
        print("resumed", i)


def model(x):
    total = 0
    for y in gen(x):
        print("consume", tuple(y.shape))
        total = total + y
    return total


for step in range(4):
    show(model(seq(2, start=step % 2)))
