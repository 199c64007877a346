"""Attributes set, behind a break, on objects that have no dict of attributes yet."""
import collections
import copy
import json

import torch


class Row(collections.OrderedDict):
    def __setattr__(self, name, value):
        super().__setitem__(name, value)
        super().__setattr__(name, value)


class Plain(dict):
    pass


class Config:
    def __init__(self, sizes):
        self.sizes, self.name, self.inner = sizes, "config", {"a": [1, 2], "b": None}

    def __getattribute__(self, key):
        return super().__getattribute__(key)


config = Config([2, 3])


def row(x):
    made = Row()
    y = x + 1
    json.dumps(len(made))
    made.first = y
    made.second = y * 2
    return made


def two(x, same):
    one = Plain()
    other = one if same else Plain()
    y = x * 2
    json.dumps(1)
    one.value = y
    other.value = y + 1
    return one.value, other.value, one is other


def copied(x):
    y = x + 1
    mine = copy.deepcopy(config)
    mine.sizes.append(len(mine.inner["a"]))
    return y * sum(mine.sizes), mine.inner is config.inner


for turn in range(6):
    x = torch.ones(2) * turn
    made = row(x)
    print(list(made), made.first.tolist(), made["second"].tolist(), sorted(vars(made)))
    print([value.tolist() if isinstance(value, torch.Tensor) else value for value in two(x, turn % 3 == 2)])
    y, shared = copied(x)
    print(y.tolist(), shared, config.sizes)
