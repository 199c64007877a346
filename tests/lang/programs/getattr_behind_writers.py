# Python code that C code calls, in which something cannot be recorded, goes on to write an object that the segment made.
import torch


class Asked:
    def __init__(self, x):
        self.x = x
        self.items = [1]

    def __getattr__(self, name):
        print("asked", name)
        return -1.0

    @property
    def counted(self):
        self.seen = self.seen + 1
        return 3

    @property
    def appended(self):
        print("appended", len(self.items))
        self.items.append(len(self.items))
        return self.items[-1]

    @property
    def stored(self):
        print("stored", sorted(self.__dict__))
        self.__dict__["late"] = 1
        setattr(self, "later", 2)
        return self.late + self.later

    @property
    def read(self):
        print("read", self.items)
        return sum(self.items)


def counted(x):
    box = Asked(x)
    return box.counted, box.seen, x + 1


def appended(x):
    box = Asked(x)
    return box.appended, box.appended, box.items, x + 1


def stored(x):
    box = Asked(x)
    return box.stored, sorted(box.__dict__), x + 1


def read(x):
    box = Asked(x)
    return box.read, box.x + 1


def in_a_cell(x):
    count = 0

    def key(item):
        nonlocal count
        print("key", item, count)
        count += 1
        return -item

    return sorted([1, 2, 3], key=key), count, x + 1


for function in (counted, appended, stored, read, in_a_cell):
    for i in range(5):
        result = function(torch.tensor([float(i)]))
        print(function.__name__, result[:-1], result[-1].item())
