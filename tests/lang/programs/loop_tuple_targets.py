"""Loops that take tuples apart, with breaks in the midst: enumerate, zip, items, pairs, generators; what they give is another thing on each turn."""

import itertools

import torch

DATA = list(torch.arange(24.0).view(12, 2) * 0.25 - 2)


def numbered(x):
    hits = []
    for i, d in enumerate(DATA):
        x = x * 0.5 + d
        if x.sum() > 1:
            hits.append(i)
    return x, hits, i


def both_by_one(x):
    kept = []
    for pair in enumerate(DATA):
        kept.append(pair)
        x = x + pair[1] * pair[0]
        if x[0] > 0:
            x = x - 1
    return x, [i for i, _ in kept], all(isinstance(pair, tuple) for pair in kept), len({id(pair) for pair in kept})


def zipped(x):
    total = 0
    for i, k, d in zip(range(100, 200), itertools.count(2**62, 2**62), DATA):
        if x.sum() > 3:
            total += k
        x = x * 0.25 + d * (i % 3)
        total -= i
    return x, total


def nested(x):
    out = []
    for i, (j, d) in enumerate(enumerate(DATA, 5)):
        if (x * j).sum() > i:
            out.append((i, j))
        x = x * 0.5 + d / (i + 1)
    return x, out


def of_dict(x):
    found = {}
    for key, (a, b) in {3: (1, 2), 4: (2.5, 3), "k": (True, None), 6: (1 << 70, "t")}.items():
        if x.sum() > -100:
            found[key] = a
        x = x + (a if isinstance(a, float) else 1)
        found[b] = key
    return x, found


def given(x):
    def pairs():
        for n in range(8):
            yield n, DATA[n]

    for n, d in pairs():
        x = x + d * n
        if x.max() > 4:
            continue
        x = x - n
    return x, n


def indices(x):
    layers = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh(), torch.nn.Sigmoid()])
    sizes = []
    for i, (d, width) in enumerate(zip(DATA, (1, 2, 1, 2, 2, 1))):
        x = layers[i % 3](x[:width]).repeat(2)[:2] + d
        if x.sum() > 0:
            sizes.append(x.reshape(width, -1).shape)
    return x, sizes


def starred(x):
    rest = None
    for first, *rest in [(1, 2, 3), (4, 5), (6,), (7, 8, 9)] * 2:
        if x.sum() > first:
            x = x - sum(rest)
        x = x + first
    return x, rest


def left_early(x):
    for i, d in enumerate(DATA):
        x = x + d
        try:
            if x.sum() > 2:
                raise ValueError(i)
        except ValueError as error:
            return x, error.args, i
    return x, i


for turn in range(10):
    for function in (numbered, both_by_one, zipped, nested, of_dict, given, indices, starred, left_early):
        x, *others = function(torch.tensor([0.5, -0.25]) * turn)
        print(function.__name__, turn, [round(v, 4) for v in x.tolist()], others)
