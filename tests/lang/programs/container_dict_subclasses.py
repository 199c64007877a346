"""Dicts of classes of their own, read as a whole: contents and order change between calls."""
import collections

import torch


class Named(dict):
    pass


def counted(x, counts):
    r = x * 2
    return r.tolist(), sorted(counts.items()), list(counts), sum(counts.values())


def ordered(x, order):
    total = x
    for position, (key, value) in enumerate(order.items()):
        total = total * (position + 1) + value
    return total.tolist(), list(order), next(iter(order))


def grown(x, groups):
    groups["all"].append(len(groups))
    return (x + len(groups["all"])).tolist(), {k: list(v) for k, v in groups.items()}


counts, named, groups = collections.Counter(), Named(a=1), collections.defaultdict(list)
order = collections.OrderedDict(a=1.0, b=2.0, c=3.0)
for step in range(10):
    counts[step % 3] += 1
    print(counted(torch.ones(2), counts))
    named["k%d" % (step // 3)] = step
    print(counted(torch.ones(2), named))
    if step % 3 == 2:
        order.move_to_end(next(iter(order)))
    print(ordered(torch.ones(1), order))
    groups[step // 4].append(step)
    print(grown(torch.ones(1), groups))
