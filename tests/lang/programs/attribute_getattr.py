import torch
from support import seq, show, trace


class Lazy:
    def __init__(self):
        self.made = []

    def __getattr__(self, name):
        if name.startswith("w"):
            self.made.append(name)
            value = seq(3, start=float(name[1:]))
            self.__dict__[name] = value
            return value
        raise AttributeError(f"no {name} here")

    def run(self, x, name):
        return x * getattr(self, name)


lazy = Lazy()
for step, name in enumerate(["w1", "w2", "w1", "bad", "w2", "w1", "bad"]):
    try:
        show(lazy.run(seq(3, start=step), name), lazy.made)
    except AttributeError:
        print(trace())
show(hasattr(lazy, "nope"), getattr(lazy, "nope", 3))
