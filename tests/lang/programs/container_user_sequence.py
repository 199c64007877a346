import torch
from support import seq, show


class Stack:
    def __init__(self, *items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return Stack(*self.items[index])
        return self.items[index]

    def __setitem__(self, index, value):
        self.items[index] = value

    def __delitem__(self, index):
        del self.items[index]

    def __contains__(self, value):
        return any(value is item for item in self.items)

    def __iter__(self):
        return reversed(self.items)


def model(stack):
    stack[0] = stack[0] * 2
    first = stack[1:][0]
    out = [item + len(stack) for item in stack]
    if len(stack) > 3:
        del stack[-1]
    return out, first in stack, bool(stack)


stack = Stack(seq(2), seq(2, start=1), seq(2, start=2), seq(2, start=3))
for step in range(5):
    show(*model(stack))
