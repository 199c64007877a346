import torch
from support import seq, show


def say(name, value):
    print("evaluated", name)
    return value


def take(*args, **kwargs):
    return sum(args) + kwargs["k"]


def model(x):
    return take(say("a", x), *say("star", [x, x]), say("b", 2 * x), k=say("k", x * 3), **say("double", {"z": 1}))


for step in range(5):
    show(model(seq(2, start=step)))
