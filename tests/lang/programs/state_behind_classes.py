"""What classes and functions are called, derive from and demand may change without any look-up giving another answer."""

import abc

import torch

def dflt(t, k=1): return t * k
def use(x): return dflt(x)
x = torch.ones(1)
for v in range(5):
    dflt.__defaults__ = tuple([v + 1])
    print([use(x).item() for _ in range(4)])
    dflt.__defaults__ = None

class C: pass
c = C()
def f(x, o): return x + 1, type(o).__name__, o.__class__.__qualname__, C.__module__, C.__doc__, str(C)
def show():
    for i in range(3): print(f(torch.ones(1), c))
show()
C.__name__ = "Other"; show()
C.__qualname__ = "Other.q"; show()
C.__module__ = "mm"; show()
C.__doc__ = "docs"; show()

class A(abc.ABC):
    def q(self): return 2
def f(x):
    try: return A().q() * x
    except TypeError as e: return x, str(e)
for m in ((), ("q",), ()):
    A.__abstractmethods__ = frozenset(m)
    for i in range(3): print(f(torch.ones(1)))

class A: pass
class D: pass
class B(A): pass
class Err(Exception): pass
class Err1(Err): pass
class Err2(Exception): pass
b = B()
def inst(x, o): return (x + isinstance(o, A)).item(), issubclass(B, A), isinstance(o, (D, int))
def caught(x):
    try: raise Err1(1)
    except Err: return (x + 1).item()
    except Err2: return (x + 2).item()
def matched(x, o):
    match o:
        case A(): return (x + 1).item()
        case D(): return (x + 2).item()
x = torch.ones(1)
print([inst(x, b) for i in range(4)], [caught(x) for i in range(4)], [matched(x, b) for i in range(4)])
B.__bases__ = (D,); Err1.__bases__ = (Err2,)
print([inst(x, b) for i in range(4)], [caught(x) for i in range(4)], [matched(x, b) for i in range(4)])

class Pl: pass
class H: k = Pl()
h = H(); h.k = 5
def f(x): return x * h.k
def show(): print([f(torch.ones(1)).item() for i in range(3)])
show(); Pl.__get__ = lambda s, o, t: 7; show(); Pl.__set__ = lambda s, o, v: None; show()
