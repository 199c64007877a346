import torch
from support import seq, show


def gen(x, name):
    try:
        yield x
        yield x * 2
    finally:
        print("finalised", name)


def model(x, name):
    g = gen(x, name)
    y = next(g)
    del g
    print("after del")
    return y + 1


for step in range(5):
    show(model(seq(2, start=step % 2), f"g{step}"))
