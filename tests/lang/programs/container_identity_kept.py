import torch
from support import seq, show


def model(items, table):
    return items, table["k"], items[0], (items,), [table]


items, table = [seq(2)], {"k": seq(3)}
for step in range(5):
    a, b, c, d, e = model(items, table)
    print(a is items, b is table["k"], c is items[0], d[0] is items, e[0] is table)
