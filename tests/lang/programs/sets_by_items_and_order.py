"""Sets of equal items of other types, and the order of sets of objects, which hash by their addresses."""

import itertools

import torch

s = {1, 2}
def f(x): return x * 1, sorted(s), max(s - {2}) if False else min(s)
for v in (1, True, 1.0):
    s.discard(1); s.add(v)
    for i in range(3): print(f(torch.ones(1))[1:])

class P: pass
def f(x, a, b, c):
    y = x + 1
    l = list({a, b, c})     # a break; the set on the stack is rebuilt
    return y, l
for make in (P, lambda: torch.ones(1)):
    ps = [make() for _ in range(8)]
    rs = []
    for t in itertools.permutations(ps, 3): rs.append((t, f(torch.ones(1), *t)[1]))
    print(sum(1 for (a, b, c), r in rs if [id(v) for v in r] != [id(v) for v in {a, b, c}]), "of", len(rs), "in a wrong order")
