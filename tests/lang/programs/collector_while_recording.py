"""The garbage collector comes while code is recorded: what its finalisers and callbacks do is not the code's own doing."""

import gc
import weakref

import torch

deleted, called, closed = [0], [0], [0]
seen = torch.zeros(3)
watched = {"times": 0}


class Cycle:
    def __init__(self):
        self.me = self

    def __del__(self):
        deleted[0] += 1
        seen.add_(1.0)
        watched["times"] += 1
        self.me = None


class Watched:
    def __init__(self):
        self.me = self


def count(reference):
    called[0] += 1


def suspended(holder):
    try:
        yield holder
    finally:
        closed[0] += 1


def garbage():
    """Ten cycles of each kind."""
    references = []
    for _ in range(10):
        Cycle()
        watched_one = Watched()
        references.append(weakref.ref(watched_one, count))
        holder = []
        generator = suspended(holder)
        holder.append(generator)
        next(generator)
    return references


def step(x, k):
    lists = [  # a collection is due in the middle of these
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
    ]
    text = str(k)  # C code that looks for signals, and so for the collector
    y = x * 2.0 + len(text) + len(lists)
    texts = [[], [], [], str(k + 1), [], [], [], str(k + 2)]
    return y + len(texts)


def broken(x, k):
    y = x + len(str(k))
    lists = [
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        str(k + 1),
    ]
    print(end="")
    more = [
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        [], [], [], [], [], [], [], [], [], [],
        repr(k),
    ]
    return y * len(repr(k)) + float(y[0]) + len(lists) + len(more)


def run(function, threshold):
    gc.collect()
    old = gc.get_threshold()
    gc.set_threshold(threshold, 1, 1)
    before = (deleted[0], called[0], closed[0], seen[0].item(), watched["times"])
    made, results, held = 0, [], []
    for k in range(12):
        held.append(garbage())
        made += 10
        results.append(function(torch.ones(3) * k, k).tolist())
    gc.collect()
    gc.set_threshold(*old)
    after = (deleted[0], called[0], closed[0], seen[0].item(), watched["times"])
    print(function.__name__, threshold, made, [b - a for a, b in zip(before, after)], results[-1])


for threshold in range(12, 600, 14):
    for function in (step, broken):
        run(function, threshold)
