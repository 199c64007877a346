import torch
from support import seq, show, trace


class Bag:
    pass


def model(bag, items, table, x):
    bag.value = x
    y = bag.value * 2
    del bag.value, items[0], table["k"]
    z = y + 1
    del y
    return z, hasattr(bag, "value"), len(items), list(table)


for step in range(5):
    show(*model(Bag(), [1, 2, 3], {"k": 1, "j": 2}, seq(2, start=step)))
try:
    model(Bag(), [], {}, seq(2))
except IndexError:
    print(trace())
