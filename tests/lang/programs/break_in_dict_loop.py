"""Graph breaks inside loops over dicts and containers of modules: where the loop stands is rebuilt behind the break."""
import collections

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
        self.named = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.ReLU()})
        self.seen = []

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            if x.sum() > 0:
                x = x * 2
        for index, layer in enumerate(self.layers):
            if x.mean() > index:
                x = x - index
        for name, module in self.named.items():
            x = module(x)
            if x.max() > 0.1:
                self.seen.append(name)
        return x


def keys(x, table):
    for key in table:
        if x.sum() > 3:
            x = x - len(key)
        x = x + table[key]
    return x


def values(x, table):
    total = x
    for value in table.values():
        if total.sum() > 5:
            total = total / 2
            continue
        total = total + value
    return total


def items(x, table):
    out = {}
    for key, value in table.items():
        if x.sum() > 1:
            out[key] = (x * value).tolist()
        else:
            out[key] = value
        x = x + 1
    return out


def grows(x, table):
    try:
        for key in table:
            if x.sum() > 1:
                table[key + "x"] = 1
            x = x + 1
    except RuntimeError as error:
        return str(error)
    return x


def nested(x, table):
    for a, b in zip(table.keys(), reversed(list(table.values()))):
        for c in table.values():
            if x.sum() > 10:
                x = x * 0.5
            x = x + b + c + len(a)
    return x


class Record(collections.OrderedDict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value if value.sum() > 1 else value - 1)


def records(x):
    record = Record()
    record["one"] = x
    record["two"] = x * 2
    return record


net = Net()
for step in range(10):
    x = torch.full((2, 2), float(step % 4))
    table = {"a": 1.0, "bb": 2.0, "ccc": float(step % 3)}
    with torch.no_grad():
        print(step, net(x), net.seen)
    net.seen.clear()
    print(step, keys(x, table), values(x, table), items(x, table), nested(x, table), values(x, {}), keys(x, dict.fromkeys("ab", 1)))
    print(step, grows(x, dict(table)), records(x), values(x, collections.OrderedDict(table)), items(x, collections.Counter(a=2, b=1)))
