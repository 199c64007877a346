import io
import sys
import torch
from support import seq, show


class Counter:
    def __init__(self):
        self.calls = 0
        self.last = None


counter = Counter()
TOTAL = 0


def plain(x, name):
    global TOTAL
    print("enter", name, tuple(x.shape))
    counter.calls += 1
    y = x * 2
    print("calls", counter.calls, end="; ")
    TOTAL += 1
    print(f"total {TOTAL}", [1, "a", {"k": None}], sep=" / ")
    return y + 1


def versions(x):
    y = x.round() * 2
    print("before", y)
    y.add_(1)
    print("after", y)
    items = [y]
    print(items)
    items.append(3)
    print(items, {"k": items})
    return y


def raises_later(x, index):
    print("printed once", index)
    y = x[index] + 1
    print("second", index)
    return torch.embedding(x, torch.tensor([index])).sum() + y.sum()


def nested(x, depth):
    print("down", depth)
    y = nested(x + 1, depth - 1) if depth else x * 2
    print("up", depth)
    return y


for step in range(5):
    show(plain(seq(3, start=step), f"call {step}"))
    show(versions(seq(3, start=step)))
    show(nested(seq(2, start=step), 2))
    for index in (0, 5):
        try:
            show(raises_later(seq(4, 3, start=step), index))
        except IndexError as error:
            print("caught", error)
print(counter.calls, TOTAL)


class Loud(io.StringIO):
    def write(self, text):
        sys.__stdout__.write(f"<{text!r} {counter.calls}>")
        return super().write(text)


old = sys.stdout
for stream in (io.StringIO(), io.StringIO(), Loud(), io.StringIO(), Loud()):
    sys.stdout = stream
    try:
        plain(seq(3), "elsewhere")
    finally:
        sys.stdout = old
    print(repr(stream.getvalue()))
