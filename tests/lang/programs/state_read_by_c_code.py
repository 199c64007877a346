"""State of objects from outside that C code reads for itself: callbacks that get attributes and items, methods, containers."""
import functools
import itertools
import operator
import types

import torch

class C:
    def __init__(s, n):
        s.n = n
    def m(s):
        return s.n
class S:
    __slots__ = ("n",)
c, c2, s1 = C(0), C(3), S(); s1.n = 0
d1, d2 = {"a": 0}, {"a": 3}; l1, l2 = [0], [3, 1]; st = {1}
ns = types.SimpleNamespace(n=0)
part = functools.partial(operator.add, 2)
T = {
    "ag": lambda: 2 if max([c, c2], key=operator.attrgetter("n")) is c else 5,
    "agm": lambda: sum(map(operator.attrgetter("n"), [c, c2])),
    "ags": lambda: sum(map(operator.attrgetter("n"), [s1])),
    "agd": lambda: operator.attrgetter("n")(c),
    "agl": lambda: sorted([c, c2], key=operator.attrgetter("n"))[0].n,
    "agg": lambda: max((c, c2), key=AG).n,
    "ig": lambda: max([d1, d2], key=operator.itemgetter("a"))["a"],
    "igm": lambda: sum(map(operator.itemgetter("a"), [d1, d2])),
    "igl": lambda: sum(map(operator.itemgetter(0), [l1, l2])),
    "igt": lambda: max(map(operator.itemgetter(0), (l1, l2))),
    "mc": lambda: sum(map(operator.methodcaller("m"), [c, c2])),
    "mcl": lambda: sum(map(operator.methodcaller("count", 3), [l1, l2])),
    "mlen": lambda: sum(map(len, [l1, l2, st])),
    "msum": lambda: sum(map(sum, [l1, l2])),
    "mget": lambda: sum(map(d1.get, ["a", "a"])),
    "mgetat": lambda: sum(map(getattr, [c, c2], ["n", "n"])),
    "mdict": lambda: sum(map(dict.__getitem__, [d1, d2], "aa")),
    "mvars": lambda: sum(map(len, map(vars, [c]))),
    "mmax": lambda: max(map(max, [l1, l2])),
    "mstr": lambda: len("".join(map(str, [l1, l2]))),
    "mrepr": lambda: len(repr([l1, d1])),
    "chainl": lambda: sum(itertools.chain(l1, l2)),
    "chainf": lambda: sum(itertools.chain.from_iterable([l1, l2])),
    "suml": lambda: sum([l1, l2], [])[0],
    "zipl": lambda: sum(a * b for a, b in zip(l1, l2)),
    "sortl": lambda: sorted([l1, l2])[0][0],
    "maxl": lambda: max(l1, l2)[0],
    "maxd": lambda: max(d1.values()),
    "allm": lambda: 2 if all(map(bool, [l1[0], c.n])) else 5,
    "redd": lambda: functools.reduce(dict.get, ["a"], d1),
    "redg": lambda: functools.reduce(getattr, ["n"], c),
    "inl": lambda: 2 if 3 in map(operator.attrgetter("n"), [c]) else 5,
    "eqd": lambda: 2 if [d1] == [{"a": 3}] else 5,
    "part": lambda: sum(map(functools.partial(getattr, c), ["n"])),
    "lenx": lambda: sum(map(operator.length_hint, [l1])),
    "opc": lambda: sum(map(operator.contains, [l1, l2], [3, 3])),
    "opg": lambda: sum(map(operator.getitem, [l1, d1], [0, "a"])),
    "nsn": lambda: ns.n,
    "nsm": lambda: sum(map(operator.attrgetter("n"), [ns])),
    "cp": lambda: [*map(list, [l1])][0][0],
    "tupm": lambda: [*map(tuple, [l1])][0][0],
    "setm": lambda: len(set().union(*[l1, l2, st])),
    "dictm": lambda: {**d1}["a"],
    "dictu": lambda: (d1 | d2)["a"] + (d2 | d1)["a"],
    "lst": lambda: [*l1, *l2][0],
    "counts": lambda: operator.countOf(l1, 3),
    "idx": lambda: operator.indexOf([9, l1[0]], l1[0]),
    "sl": lambda: l1[-1:][0],
    "ext": lambda: (lambda q: (q.extend(l1), q[0])[1])([]),
    "ins": lambda: sum(map(isinstance, [c.n], [int])),
    "call": lambda: sum(map(operator.call, [c.m, c2.m])),
    "bm": lambda: sum(f() for f in [c.m, c2.m]),
    "bmm": lambda: functools.partial(C.m, c)(),
    "filt": lambda: len(list(filter(C.m, [c, c2]))),
    "filta": lambda: len(list(filter(operator.attrgetter("n"), [c, c2]))),
    "sk": lambda: sorted(["a", "b"], key={"a": 1, "b": 2}.get)[0] == "a",
    "skd": lambda: ord(sorted(["a", "q"], key=dk.get)[0]),
    "mind": lambda: ord(min(dk, key=dk.get)),
    "mink": lambda: ord(min(dk, key=dk.__getitem__)),
    "tw": lambda: len(list(itertools.takewhile(d1.get, ["a", "a"]))),
    "gb": lambda: len(list(itertools.groupby([c, c2], key=operator.attrgetter("n")))),
    "cmpk": lambda: sorted([1, 2], key=functools.cmp_to_key(lambda a, b: a - b if c.n % 2 else b - a))[0],
    "acc": lambda: list(itertools.accumulate([l1, l2], operator.add))[-1][0],
    "starmap": lambda: sum(itertools.starmap(getattr, [(c, "n")])),
    "nextd": lambda: next(iter(d1.values())),
    "nextm": lambda: next(map(operator.attrgetter("n"), [c])),
    "anyl": lambda: 2 if any(l1) else 5,
}
dk = {"a": 1, "q": 2}
AG = operator.attrgetter("n")


def step(t, x):
    return x * t()


for name, t in T.items():
    results = []
    for i in range(9):
        v = i % 5
        c.n = s1.n = d1["a"] = l1[0] = ns.n = dk["a"] = v
        if i % 4 == 1:
            l2.append(v)
            st.add(v + 5)
        print(end="")
        results.append(step(t, torch.ones(2)))
    print(name, [float(result[0]) for result in results])
    del l2[2:]
    st.clear()
    st.add(1)
