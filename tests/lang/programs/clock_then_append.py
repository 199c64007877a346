"""What is written after a clock was read, beside tensors: once, although operators may not follow a clock."""
import time

import torch
from support import show

torch.manual_seed(0)
items, table, written = [], {}, set()


class Box:
    pass


box = Box()


def appended(y):
    y.exponential_()
    time.time()
    items.append(y)


def stored(y):
    y.mul_(2)
    now = time.perf_counter()
    table["y"] = y
    box.last = y
    items.insert(0, y)
    return now > 0, y + 1


def swapped(y):
    z = y * 2
    time.monotonic()
    box.last, table["z"] = z, items.pop() if items else None
    table.pop("y", None)
    table.setdefault("steps", []).append(y)
    return z


for function in (appended, stored, swapped):
    for step in range(8):
        y = torch.ones(2, 3)
        result = function(y)
        show(result, len(items), y, y._version, [id(t) == id(y) for t in items], sorted(table), len(table.get("steps", ())), getattr(box, "last", None) is y)
