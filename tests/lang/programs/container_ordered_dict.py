import collections
import torch
from support import seq, show


def model(x):
    layers = collections.OrderedDict(a=x, b=x + 1)
    layers["c"] = x * 2
    layers.move_to_end("a")
    name, last = layers.popitem(last=False)
    return layers, name, last


for step in range(5):
    show(*model(seq(2, start=step % 2)))
