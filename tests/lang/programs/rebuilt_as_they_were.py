"""Objects rebuilt behind a break: such that hold themselves, sets in their order, iterators of dicts that changed, keys with a hash of their own."""

import collections
import types

import torch

def g(x, r): return (x + 1).sum().item(), str([r]), r[5:], list(r)
for r in (range(0, 3, 2), range(0, 4, 2), range(0), range(5, 5), range(0, 1), range(0, 1, 7)):
    for i in range(4): print(g(torch.ones(2), r))

def f(x):
    d = collections.deque(); d.append(d)
    y = x + 1
    eval("0")
    return d[0] is d
for i in range(5): print(f(torch.ones(1)), flush=True)

NT = collections.namedtuple("NT", "a")
class O: pass
def g1(x): t = ([],); t[0].append(t); y = x + 1; eval("0"); return t[0][0] is t
def g2(x): t = NT([]); t[0].append(t); y = x + 1; eval("0"); return t[0][0] is t
def g4(x): t = (1, O()); t[1].t = t; y = x + 1; eval("0"); return t[1].t is t
def g5(x): t = slice([], 2); t.start.append(t); y = x + 1; eval("0"); return t.start[0] is t
def g7(x): t = types.MethodType(lambda s: s, []); t.__self__.append(t); y = x + 1; eval("0"); return t()[0] is t
def g8(x): t = [].append; t(t); y = x + 1; eval("0"); return t.__self__[0] is t
def g9(x): t = frozenset([O()]); (o,) = t; o.t = t; y = x + 1; eval("0"); return o.t is t
def g6(x): t = None; l = [1]; t = iter(l); l.append(t); y = x + 1; eval("0"); next(t); return next(t) is t
def g13(x): t = map(lambda v: v + len(box), [1, 2, 3]); box = [t]; next(t); y = x + 1; eval("0"); return list(t), box[0] is t
def g14(x): t = (lambda: t,); u = t; y = x + 1; eval("0"); return t[0]() is t, u is t
def g16(x): t = ValueError([]); t.args[0].append(t.args); y = x + 1; eval("0"); return t.args[0][0] is t.args
for f in (g1, g2, g4, g5, g7, g8, g9, g6, g13, g14, g16): print(f.__name__, [f(torch.ones(1)) for i in range(5)])

def f(x):
    d = {1: 1, 2: 2, 3: 3}; it = iter(d); next(it); del d[1]; d[4] = 4
    y = x + 1; eval("0")
    try: return list(it)
    except RuntimeError as e: return str(e)
def g(x):
    d = {1: 1, 2: 2, 3: 3}; it = iter(d); next(it); d[4] = 1
    y = x + 1; eval("0")
    try: return list(it)
    except RuntimeError as e: return str(e)
for h in (f, g):
    for i in range(5): print(h(torch.ones(1)))

c1, c2 = complex("1+2j"), complex("1+2j")
def f(x, a, b): y = x + 1; return a is b
for t in ((c1, c1),) * 5 + ((c1, c2),) * 5: print(f(torch.ones(1), *t))

def s4(x):
    s = set(range(40))
    for i in range(40):
        if i not in (9, 16): s.discard(i)
    y = x + 1; eval("0"); return list(s)
def s5(x): s = {15}; s |= {7}; y = x + 1; eval("0"); return list(s), list(s | {31, 23})
def s6(x): s = {15} | {7}; y = x + 1; eval("0"); return list(s)
def s10(x): s = {15, 7, 3}; s.remove(3); y = x + 1; eval("0"); return list(s), s.pop()
def s11(x): l = [frozenset((15, 7)) | {23}]; y = x + 1; eval("0"); return list(l[0])
def s12(x): t = set([15, 7]); t.discard(15); t.add(15); y = x + 1; eval("0"); return list(t)
def s14(x): s = {15} | {7}; y = x + 1; return s          # returned, no break
for f in (s4, s5, s6, s10, s11, s12, lambda x: list(s14(x))):
    for i in range(5): print(f(torch.ones(1)))

def d1(x):
    def g(): pass
    d = g.__dict__; d["a"] = 1
    y = x + 1; eval("0")
    d["b"] = 2; g.c = 3
    return g.b, d is g.__dict__, sorted(d)
def d1b(x):
    def g(): pass
    d = g.__dict__; g.a = 1; y = x + 1
    return g, d
def d1c(x): g, d = d1b(x); g.z = 1; return d
for f in (d1, d1c):
    for i in range(5):
        try: print(f(torch.ones(1)))
        except AttributeError as e: print("AttributeError", e)

C = [0, 0]
class Q:
    def __init__(s, v): s.v = v
    def __hash__(s): C[0] += 1; return hash(s.v)
    def __eq__(s, o): C[1] += 1; return s.v == o.v
def h2(x): s = set(); q = Q(1); s.add(q); y = x + 1; eval("0"); return len(s)
def h4(x): s = frozenset([Q(8), Q(0), Q(16)]); y = x + 1; eval("0"); return [q.v for q in s]
def h5(x): q = Q(1); s = set([q]); q.v = 2; y = x + 1; eval("0"); return q in s, len(s)
def h1(x): q = Q(1); d = {}; d[q] = 1; y = x + 1; eval("0"); return len(d)
def h3(x): d = dict([(Q(1), 2), (Q(1), 3)]); y = x + 1; eval("0"); return list(d.values())
def h6(x): q = Q(1); d = {}; d[q] = q; q.d = d; y = x + 1; eval("0"); return len(q.d)
def h7(x): s = {Q(1)} | {Q(2)}; y = x + 1; return s
for f in (h2, h4, h5, h1, h3, h6, lambda x: len(h7(x))):
    for i in range(5):
        C[:] = [0, 0]
        try: print(f.__name__, f(torch.ones(1)), C, flush=True)
        except Exception as e: print(f.__name__, type(e).__name__, e, flush=True)
