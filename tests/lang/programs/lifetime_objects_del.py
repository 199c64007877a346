import torch
from support import seq, show


class Handle:
    def __init__(self, name, value):
        self.name, self.value = name, value

    def __del__(self):
        print("closing", self.name)


def model(x, name):
    handle = Handle(name, x * 2)
    y = handle.value + 1
    other = Handle(name + "-second", y)
    del handle
    print("first closed by now")
    return other.value * 2


for step in range(5):
    show(model(seq(2, start=step % 2), f"h{step}"))
