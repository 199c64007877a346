"""Views of dicts that are alive where a segment ends: they show what the dict holds when they are looked at."""

import collections
import os

import torch

OUTSIDE = {"a": 1, "b": 2}
ORDERED = collections.OrderedDict(c=3, d=4)


class Table(dict):
    pass


TABLE = Table(e=5)


def outside(x):
    keys, values, items = OUTSIDE.keys(), OUTSIDE.values(), OUTSIDE.items()
    y = x * 2
    os.stat(".")
    OUTSIDE["z"] = OUTSIDE.get("z", 0) + 1
    return y + sum(values), list(keys), list(items), sorted(keys & {"a", "z"})


def made_inside(x):
    made = {"x": x, "y": x + 1}
    values, keys = made.values(), made.keys()
    os.stat(".")
    made["w"] = x + 2
    return [v.tolist() for v in values], list(keys), keys == {"x", "y", "w"}, type(values).__name__


def ordered(x):
    keys, values = ORDERED.keys(), ORDERED.values()
    y = x + len(keys)
    os.stat(".")
    ORDERED.move_to_end("c")
    return y, list(keys), list(reversed(values)), type(keys).__name__


def of_a_subclass(x):
    items = TABLE.items()
    y = x * len(items)
    os.stat(".")
    TABLE["n"] = len(TABLE)
    return y, list(items), items is TABLE.items()


def same_dict(x):
    made = {"k": 1}
    view = made.keys()
    y = x + 1
    os.stat(".")
    view.mapping
    made["l"] = 2
    return y, sorted(view), len(view.mapping)


def returned(x):
    made = {"x": x * 2}
    return made, made.values(), OUTSIDE.keys()


def kept(x, into=[]):
    into.append({"t": x + 1}.items())
    os.stat(".")
    return [[(name, tensor.tolist()) for name, tensor in view] for view in into[-2:]]


def main():
    for function in (outside, made_inside, ordered, of_a_subclass, same_dict, returned, kept):
        for turn in range(6):
            print(function.__name__, function(torch.full((2,), float(turn))))


main()
