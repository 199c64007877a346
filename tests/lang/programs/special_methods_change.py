"""Special methods that C code finds by the class of an object (max, set, any, sum, str), given to the class later or taken away."""
import torch


class A:
    def __init__(s, v): s.v = v
    def __lt__(s, o): return s.v < o.v
    def __gt__(s, o): return s.v > o.v
    def __add__(s, o): return A(s.v + o.v)
    def __radd__(s, o): return A(s.v + o)
    def __eq__(s, o): return s.v == o.v
    def __hash__(s): return int(s.v)
    def __bool__(s): return s.v > 0
    def __index__(s): return int(s.v)
    def __len__(s): return int(s.v)
class B(A): pass
def f1(x, items): return x * max(items).v
def f2(x, items): return x * sorted(items)[0].v
def f3(x, items): return x * sum(items).v
def f4(x, items): return x * len(set(items))
def f5(x, items): return x * items.index(items[-1])
def f6(x, items): return x * (any(items) + 2 * all(items))
def f7(x, items):
    a = [A(3.), B(1.), A(2.)]
    return x * max(a).v + sorted(a)[0].v
def f8(x, items):
    d = {items[0]: 1., items[1]: 2.}
    return x * d.get(B(3.), 7.)
def f9(x, items): return x * (items[1] in items) + x * sum(map(len, items))
fs = [f1, f2, f3, f4, f5, f6, f7, f8, f9]
items = [A(3.), B(1.), B(2.)]
def show(tag):
    for f in fs:
        out = [f(torch.ones(1), items).item() for _ in range(6)]
        print(tag, f.__name__, out[0], len(set(out)))
show("first")
A.__lt__ = lambda s, o: s.v > o.v; A.__gt__ = lambda s, o: s.v < o.v; show("lt")
B.__lt__ = lambda s, o: s.v < o.v; B.__gt__ = lambda s, o: s.v > o.v; show("B lt")
A.__add__ = lambda s, o: A(s.v * o.v); A.__radd__ = lambda s, o: A(10.); show("add")
B.__eq__ = lambda s, o: True; B.__hash__ = lambda s: 3; show("eq")
B.__bool__ = lambda s: False; show("bool")
A.__hash__ = lambda s: 3; A.__eq__ = lambda s, o: False; show("A eq")
B.__len__ = lambda s: 5; A.__len__ = lambda s: 50; show("len")
class P: pass
def g1(x, items): return x * (any(items) + 2 * all(items))
def g2(x, items): return x * len(set(items))
def g3(x, items): return x * items.count(items[0]) + items.index(items[2])
def g4(x, items): return x * (items[0] == items[1]) + (not items[2])
def g5(x, items): return x * len({items[0]: 1, items[1]: 2})
def g6(x, items): return x * any(i for i in items) + 2 * any(P() for _ in range(2))
def g7(x, items): return x * sum(map(bool, items)) + len(list(filter(None, items)))
def g9(x, items):
    a = [P(), P(), P()]
    return x * len(set(a)) + sum(map(bool, a)) + any(a) + a.count(a[0])
def g10(x, items): return x * (dict.fromkeys(items).__len__()) + (items[1] in (items[0], items[2]))
def g11(x, items): return x * isinstance(items[0], int) + (callable(items[0])) * 2 + hasattr(items[0], "__len__") * 4
fs = [g1, g2, g3, g4, g5, g6, g7, g9, g10, g11]
items = [P(), P(), P()]
show("plain")
P.counter = 1; show("counter")
P.__hash__ = lambda s: 1; show("hash")
P.__eq__ = lambda s, o: True; show("eq2")
P.__len__ = lambda s: 0; show("len2")
P.__bool__ = lambda s: True; show("bool2")
P.__repr__ = lambda s: "qq"; show("repr2")
P.__call__ = lambda s: "qq"; show("call2")
del P.__eq__; show("no eq")
del P.__bool__; show("no bool")
class Meta(type): pass
class Q(metaclass=Meta): pass
def h1(x, items): return x * isinstance(items[0], Q) + isinstance(3, Q) * 2
def h2(x, items): return x * (Q in (3, P)) + (Q == P) * 2 + len({Q, P}) * 4
def h3(x, items): return x * issubclass(P, Q) + callable(Q)
def h4(x, items): return x * bool(Q) + (3 if Q else 5)
fs = [h1, h2, h3, h4]
show("meta")
Meta.__instancecheck__ = lambda c, o: True; Meta.__subclasscheck__ = lambda c, o: True; show("check")
Meta.__eq__ = lambda c, o: True; Meta.__hash__ = lambda c: 1; show("meta eq")
Meta.__bool__ = lambda c: False; show("meta bool")
