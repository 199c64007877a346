import torch
from support import seq, show


class Loud:
    scale = 2.0

    def __getattribute__(self, name):
        if not name.startswith("__"):
            print("read", name)
        return object.__getattribute__(self, name)

    def __setattr__(self, name, value):
        print("write", name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        print("delete", name)
        object.__delattr__(self, name)

    def run(self, x):
        self.last = x * self.scale
        result = self.last + 1
        del self.last
        return result


loud = Loud()
for step in range(5):
    show(loud.run(seq(2, start=step)))
