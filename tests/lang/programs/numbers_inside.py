"""Numbers inside of what C code is given: in containers, behind iterators, keys and special methods; counters, sizes, numbers of tensors."""
import collections
import copy
import functools
import itertools
import json
import math
import operator

import torch

class C:
    pass
c, c2 = C(), C(); c.n = 0; c2.n = 3
dd = {"a": 1, "b": 3}; ll = [1, 3, 2]; dq = collections.deque([1, 3]); od = collections.OrderedDict(a=1, b=3)
class P:
    def __init__(s, f):
        s.f = f
    def __iter__(s):
        return s.f()
    def __len__(s):
        return len(ll)
    def __getitem__(s, i):
        return ll[i]
    def __eq__(s, o):
        return [c.n] == o
    def keys(s):
        return ["a", "b"]
class Q:
    def __getitem__(s, k):
        return c.n if k == "a" else 3
    def keys(s):
        return ["a", "b"]
    def items(s):
        return [("a", c.n)]
    def __reduce__(s):
        return (C, (), {"n": c.n})
    def __getnewargs__(s):
        return (c.n,)
    def __format__(s, f):
        return str([c.n])
    def __repr__(s):
        return repr((c.n, 2))
def ck(): return c2.n
T = {
    "ag": lambda: 2 if max([c, c2], key=operator.attrgetter("n")) is c else 5,
    "vars": lambda: max(vars(c).values()),
    "ddmax": lambda: max(dd.values()),
    "ddsum": lambda: sum(dd.values()),
    "ddeq": lambda: 2 if dd == {"a": 3, "b": 3} else 5,
    "lsort": lambda: sorted(ll)[0],
    "lmax": lambda: max(ll),
    "lsum": lambda: sum(ll),
    "lidx": lambda: ll.index(3),
    "lcnt": lambda: ll.count(3),
    "lin": lambda: 2 if 3 in ll else 5,
    "join": lambda: len(",".join(map(str, ll))),
    "pct": lambda: len("%d %d %d" % tuple(ll)),
    "leq": lambda: 2 if ll == [3, 3, 2] else 5,
    "llt": lambda: 2 if ll < [3, 3, 2] else 5,
    "set": lambda: len(set(ll)),
    "tup": lambda: tuple(ll)[0],
    "rng": lambda: len(range(*ll)),
    "cpy": lambda: copy.copy(ll)[0] + ll[:][0],
    "deep": lambda: copy.deepcopy(ll)[0],
    "rev": lambda: list(reversed(ll))[-1],
    "fsum": lambda: math.fsum(ll),
    "prod": lambda: math.prod(ll),
    "dist": lambda: math.dist(ll, [0, 0, 0]),
    "acc": lambda: list(itertools.accumulate(ll))[-1],
    "mul": lambda: (ll * 2)[3],
    "add": lambda: (ll + [1])[0],
    "cnt": lambda: collections.Counter(ll)[3],
    "ctr2": lambda: collections.Counter(a=c.n).most_common(1)[0][1],
    "dqsum": lambda: sum(dq),
    "odmax": lambda: max(od.values()),
    "red": lambda: functools.reduce(operator.add, ll),
    "any": lambda: 2 if any(v == 3 for v in ll) else 5,
    "json": lambda: len(json.dumps(ll)),
    "itemg": lambda: operator.itemgetter(0)(ll),
    "tens": lambda: torch.tensor(ll).sum(),
    "unp": lambda: max(*ll),
    "dictfrom": lambda: dict(zip("abc", ll))["a"],
    "chain": lambda: sum(itertools.chain(ll, [1])),
    "isl": lambda: max(itertools.islice(ll, 2)),
    "zipm": lambda: max(zip(ll, ll))[0],
    "enm": lambda: max(enumerate(ll), key=lambda t: t[1])[0],
    "mapa": lambda: sum(map(abs, ll)),
    "fil": lambda: len(list(filter(None, [v - 3 for v in ll]))),
    "str": lambda: len(str(ll)),
    "hash": lambda: hash(tuple(ll)) % 7,
    "bytes": lambda: sum(bytes(ll)),
    "srt": lambda: (lambda q: (q.sort(), q[0])[1])(ll.copy()),
    "minmax": lambda: min(ll) + max(ll),
    "it1": lambda: sum(P(lambda: iter([c.n]))),
    "it2": lambda: sum(P(lambda: iter((c.n, 1)))),
    "it3": lambda: max(P(lambda: iter(ll))),
    "it4": lambda: sum(P(lambda: map(abs, ll))),
    "it5": lambda: max(P(lambda: iter({c.n: 1}))),
    "it6": lambda: sum(P(lambda: iter(dd.values()))),
    "it7": lambda: sum(P(lambda: (v for v in ll))),
    "it8": lambda: sum(P(lambda: zip(ll)).__iter__().__next__()),
    "gmax": lambda: max((c.n if i else c2.n, i) for i in range(2))[0],
    "gmax2": lambda: max([c.n if i else c2.n, i] for i in range(2))[0],
    "skey": lambda: sorted([1, 2], key=lambda a: (c.n if a == 1 else c2.n, a))[0],
    "skey2": lambda: sorted([1, 2], key=lambda a: [c.n if a == 1 else c2.n])[0],
    "mkey": lambda: max([1, 2], key=lambda a: {0: c.n, 1: c2.n}[a - 1]),
    "dgen": lambda: dict((k, [c.n]) for k in "ab")["a"][0],
    "dgen2": lambda: dict([k, c.n] for k in "ab")["a"],
    "sgen": lambda: len({(c.n, 1), (3, 1)}),
    "sgen2": lambda: len(set((v, 1) for v in (c.n, 3))),
    "fs": lambda: len(frozenset([c.n, 3])),
    "dq": lambda: {**Q()}["a"],
    "dq2": lambda: dict(Q())["a"],
    "upd": lambda: (lambda d: (d.update(Q()), d["a"])[1])({}),
    "eqp": lambda: 2 if P(None) == [3] else 5,
    "lextend": lambda: (lambda l: (l.extend(P(lambda: iter([c.n]))), l[0])[1])([]),
    "starp": lambda: max(*P(lambda: iter([c.n, 3]))),
    "unpk": lambda: (lambda a, b: a * b)(*P(lambda: iter([c.n, 3]))),
    "allt": lambda: 2 if all((c.n - 3, 1)) else 5,
    "anyl": lambda: 2 if any([c.n - 3]) else 5,
    "anyg": lambda: 2 if any([c.n - 3] for _ in range(2)) else 5,
    "cmpt": lambda: 2 if (c.n, 1) == (3, 1) else 5,
    "cmpl": lambda: 2 if [c.n] < [3] else 5,
    "tin": lambda: 2 if (c.n, 1) in [(3, 1)] else 5,
    "frmt": lambda: len(f"{Q()}") + len(f"{[c.n]}"),
    "repr": lambda: len(repr(Q())) + len(repr([c.n * 7])),
    "redc": lambda: functools.reduce(lambda a, b: (a[0] + b, c.n), [1, 2], (c.n, 0))[1],
    "cmpk": lambda: 2 if operator.eq([c.n], [3]) else 5,
    "getd": lambda: {(3,): 5}.get((c.n,), 7),
    "subs": lambda: collections.defaultdict(lambda: 7, {(3, 1): 4})[(c.n, 1)],
    "mapd": lambda: sum(map({1: 5, 3: 6}.get, ll, [0, 0, 0])),
    "starm": lambda: sum(itertools.starmap(max, [(c.n, 3)])),
    "pmap": lambda: list(map(max, [(c.n, 2)], [(3, 1)]))[0][0],
    "grp": lambda: len(list(itertools.groupby([c.n, 3]))),
    "rep": lambda: len(list(itertools.repeat(1, c.n))),
    "dropw": lambda: len(list(itertools.dropwhile((3).__ne__, ll))),
    "cntof": lambda: operator.countOf(P(lambda: iter([c.n])), 3),
    "idxof": lambda: 2 if 3 in P(lambda: iter([c.n])) else 5,
}


def step(mode, t, x):
    if mode == "late":
        v = int(x.sum().item())
    elif mode == "host":
        v = (c.n + 1) % 6
    else:
        v = x.shape[0]
    c.n = v
    dd["a"] = v
    ll[0] = v
    dq[0] = v
    od["a"] = v
    return x * t()


for mode in ("late", "host", "size"):
    for name, t in T.items():
        c.n, results = 0, []
        for i in range(9):
            x = torch.full((2,), float(i % 5 + 1)) if mode != "size" else torch.ones(i % 5 + 2)
            results.append(step(mode, t, x))
        print(mode, name, [result[0].item() for result in results])
