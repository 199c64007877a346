import gc
import weakref
import torch
from support import seq, show


class Node:
    def __init__(self, value):
        self.value, self.other = value, None


def model(x):
    a, b = Node(x * 2), Node(x + 1)
    a.other, b.other = b, a
    return a.other.value * b.other.value, weakref.ref(a)


gc.disable()
for step in range(5):
    value, ref = model(seq(2, start=step % 2))
    before = ref() is not None
    gc.collect()
    show(value, before, ref() is None)
