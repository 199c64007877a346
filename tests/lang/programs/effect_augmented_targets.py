import torch
from support import seq, show


class Bag:
    pass


def model(bag, items, table, x):
    bag.total += x
    items[0] += 1
    items[1] *= x
    table["n"] -= 2
    table["t"] /= 2
    bag.count **= 2
    return bag.total


bag, items, table = Bag(), [0, seq(2)], {"n": 0, "t": seq(2)}
bag.total, bag.count = torch.zeros(2), 1
held = bag.total
for step in range(6):
    show(model(bag, items, table, seq(2, start=step)), bag.total is held, items, table, bag.count)
