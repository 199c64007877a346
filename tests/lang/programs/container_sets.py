import torch
from support import seq, show


def model(x, wanted):
    names = {"sin", "cos"} | set(wanted)
    out = x
    for name in sorted(names - {"tan"}):
        out = getattr(torch, name)(out)
    names.discard("sin")
    return out, len(names), frozenset(wanted) <= names


for step in range(8):
    show(*model(seq(3, start=step % 2), ["tanh"] if step % 4 == 3 else ["tan", "cos"]))
