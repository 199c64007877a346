import torch
from support import seq, show


class History(list):
    def append(self, value):
        super().append(value)
        if len(self) > 2:
            self.pop(0)


class Scale(float):
    def __mul__(self, other):
        return ("scaled", float(self) * other)


def model(x, history, scale):
    history.append(x * 2)
    name, value = scale * x
    return sum(history), len(history), name, value, scale + 1


history = History()
for step in range(6):
    show(*model(seq(2, start=step), history, Scale(1.5 + step % 2)))
