import sys
import torch
from support import seq, show


def model(x, items, table):
    y = x + 1
    items.append(y)
    table["y"] = y
    return y


for step in range(6):
    x, items, table = seq(2), [], {}
    y = model(x, items, table)
    print(sys.getrefcount(x), sys.getrefcount(y), sys.getrefcount(items), sys.getrefcount(table), y is items[0])
