import torch
from support import seq, show


def model(values):
    total = 0
    names = []
    for name, value in values.items():
        total = total * 2 + value
        names.append(name)
    return total, ",".join(names)


a = {"p": seq(2), "q": seq(2, start=1)}
b = {"q": seq(2, start=1), "p": seq(2)}
c = {"p": seq(2), "q": seq(2, start=1), "r": seq(2, start=2)}
for values in (a, a, a, b, a, b, c, a, c, b):
    show(*model(values))
