"""Tuples from outside as keys and items of sets: what they hold decides which are one."""

import random

import torch

def f1(x, a, b): return x + 1, len({a, b})
def f2(x, a, b): return x + 1, len({a: 1, b: 2})
def f3(x, a, b):
    d = {}
    d[a] = 1; d[b] = 2
    return x + 1, len(d)
def f4(x, a, b):
    s = set()
    s.add(a); s.add(b)
    return x + 1, len(s)
def f5(x, a, b): return x + 1, len({t for t in (a, b)})
def f6(x, a, b): return x + 1, len({t: 1 for t in (a, b)})
def f7(x, a, b): return x + 1, len(set([a, b])), len(dict([(a, 1), (b, 2)])), len(dict(zip((a, b), (1, 2)))), len(dict.fromkeys([a, b]))
def f8(x, a, b): return x + 1, a == b, a < b, a in [b], a in {b}, a in {b: 1}, [a, b].count(a), [b, a].index(a), max(a, b), sorted([a, b])
T = {(1, 2): 3, (2, 2): 4}
def f9(x, a, b): return x + 1, T.get(a), a in T, T[a] if a in T else None, hash(a) == hash(b)
def f10(x, a, b):
    match a:
        case (1, y): return x, y
        case _: return x, None
for f in (f1, f2, f3, f4, f5, f6, f7, f8, f9, f10):
    for turn in range(14):
        a = tuple([turn % 2 + 1, 2]); b = tuple([turn // 2 % 2 + 1, 2])
        print(f.__name__, turn, f(torch.ones(1), a, b)[1:])
    for turn in range(14):
        a = tuple([turn % 2 + 1, 2]); b = tuple([(turn // 2 % 2 + 1) * 1.0, True + 1])
        print(f.__name__, turn, f(torch.ones(1), a, b)[1:])


class Left:
    n = 0


left = Left()


def drawn(x):
    return x + 1, len({(left.n, 1), (random.randrange(4) % 5, 1)})


random.seed(0)
for step in range(12):
    left.n = step % 2
    print(step, drawn(torch.ones(1))[1])
